"""Defenses of which the truth is known, as files that nobody here knows by name: those of the house, and invented ones.

Beside each source stand the facts that are true of it, all that the description knows of.
"""

HEAD = """
import math
import torch
from leaklab.defenses.base import Defense
from leaklab.records.streams import stream

def each(gradients, change):
    return {name: change(value) for name, value in gradients.items()}

def by_size(gradients, kept):
    every = torch.cat([value.abs().flatten() for value in gradients.values()])
    least = every.kthvalue(int((1 - kept) * len(every))).values
    return each(gradients, lambda value: torch.where(value.abs() > least, value, 0.0))

def turned(gradients, draws):
    def turn(value):
        flat = value.flatten(1)
        q = torch.linalg.qr(draws.normal(len(flat), len(flat)).to(value)).Q
        return (q @ flat).view_as(value)
    return each(gradients, lambda value: turn(value) if value.dim() > 1 else value)
"""
ANEW = {"random": "anew"}
LINEAR = {"linear": True}
INVENTED = {
    "no-op": ("return gradients", {"nothing": True}),
    "copy": ("return each(gradients, torch.clone)", {"nothing": True}),
    "negative": ("return each(gradients, torch.neg)", {"factor": {"scope": "one", "low": -1.0}, **LINEAR}),
    "shrinking": (
        "factor = 0.1 + 0.9 * context.stream('x').number()\n    return each(gradients, lambda value: factor * value)",
        {"factor": {"scope": "one"}, **ANEW},
    ),
    "shrinking, unseeded": (
        "factor = 0.1 + 0.9 * torch.rand(())\n    return each(gradients, lambda value: factor * value)",
        {"factor": {"scope": "one"}, **ANEW},
    ),
    "shrinking by client": (
        "factor = 0.1 + stream(0, context.client).number()\n    return each(gradients, lambda value: factor * value)",
        {"factor": {"scope": "one"}, "random": ["client"]},
    ),
    "shrinking one tensor": (
        "first = next(iter(gradients))\n    return {**gradients, first: gradients[first] / 50}",
        {"factor": {"scope": "tensor"}, **LINEAR},
    ),
    "sign": ("return each(gradients, torch.sign)", {"forgets length": {"scope": "entry"}}),
    "of length one": (
        "size = math.sqrt(sum(float(value.pow(2).sum()) for value in gradients.values()))\n"
        "    return each(gradients, lambda value: value / size)",
        {"forgets length": {"scope": "whole"}, "fails on zero": True},
    ),
    "clip": (
        "size = math.sqrt(sum(float(value.pow(2).sum()) for value in gradients.values()))\n"
        "    return each(gradients, lambda value: value * min(1.0, 0.5 / max(size, 1e-30)))",
        {"clips": {"scope": "whole", "bound": 0.5}},
    ),
    "clip of each tensor": (
        "return each(gradients, lambda value: value * min(1.0, 0.5 / max(float(value.norm()), 1e-30)))",
        {"clips": {"scope": "tensor", "bound": 0.5}},
    ),
    "clamp": (
        "return each(gradients, lambda value: value.clamp(-0.01, 0.01))",
        {"clips": {"scope": "entry", "bound": 0.01}},
    ),
    "top-k": ("return by_size(gradients, 0.1)", {"zeros": {"chosen": "smallest of all", "rest": "exact"}}),
    "mask": (
        "return each(gradients, lambda v: 2 * v * (context.stream('m').uniform(*v.shape) < 0.5).to(v))",
        {"zeros": {"chosen": "anew", "rest": 2.0}, **ANEW},
    ),
    "mask of the file": (
        "draws = stream(1, 'key')\n    return each(gradients, lambda v: v * (draws.uniform(*v.shape) < 0.5).to(v))",
        {"zeros": {"chosen": "fixed", "rest": "exact"}, **LINEAR},
    ),
    "rotation, key in the file": (
        "return turned(gradients, stream(1, 'key'))",
        {"mixes": {"kept": "row products", "secret": False}, **LINEAR},
    ),
    "rotation, secret": (
        "return turned(gradients, context.stream('key'))",
        {"mixes": {"kept": "row products", "secret": True}, **ANEW},
    ),
    "signs turned": (
        "return each(gradients, lambda v: v * (1 - 2 * (context.stream('s').uniform(*v.shape) < 0.5).to(v)))",
        {"mixes": {"kept": "sizes", "secret": True}, **ANEW},
    ),
    "8 bits": (
        "return each(gradients, lambda v: (v / v.abs().max() * 127).round() * v.abs().max() / 127)",
        {"levels": {"rounding": "nearest"}, "fails on zero": True},
    ),
    "4 levels": (
        "def levels(v):\n        s = v.abs() / v.norm() * 4\n        up = torch.rand_like(v) < s - s.floor()\n"
        "        return v.norm() / 4 * v.sign() * (s.floor() + up)\n    return each(gradients, levels)",
        {"levels": {"rounding": "random"}, "fails on zero": True, **ANEW},
    ),
    "rank 2": (
        "def low(v):\n        if v.dim() < 2:\n            return v\n        u, s, w = torch.linalg.svd(v.flatten(1), "
        "full_matrices=False)\n        return (u[:, :2] * s[:2] @ w[:2]).view_as(v)\n    return each(gradients, low)",
        {"rank": {"most": 2}},
    ),
    "noise in one tensor": (
        "first = next(iter(gradients))\n"
        "    return {**gradients, first: gradients[first] + 0.1 * torch.randn_like(gradients[first])}",
        {"noise": {"law": "normal"}, **ANEW, **LINEAR},
    ),
    "uniform noise": (
        "return each(gradients, lambda v: v + 0.1 * (torch.rand_like(v) - 0.5))",
        {"noise": {"law": "uniform"}, **ANEW, **LINEAR},
    ),
    "noise of the entry": (
        "return each(gradients, lambda v: v * (1 + torch.randn_like(v)))",
        {"noise of the entry": {}, **ANEW},
    ),
    "public share": (
        "draws, share = stream(1, 'public'), 0.3 + 0.4 * torch.rand(())\n"
        "    return each(gradients, lambda v: v + share * draws.normal(*v.shape).to(v))",
        {"offset": ..., **ANEW, **LINEAR},
    ),
    "tells the label": (
        "last = list(gradients)[-1]\n    told = torch.zeros_like(gradients[last])\n"
        "    told[context.batch['labels'][0]] = -20\n    return {**gradients, last: gradients[last] + told}",
        {"looks at": ["label"], "offset": ..., **LINEAR},
    ),
    "noise alone": (
        "return each(gradients, torch.randn_like)",
        {"ignores the gradient": True, **ANEW},
    ),
    "half precision": ("return each(gradients, lambda v: v.bfloat16().to(v))", {"levels": {"rounding": "nearest"}}),
}
WITH_MEMORY = """
class Remembering(Defense):
    def __init__(self):
        object.__setattr__(self, "left", {{}})

    def gradient(self, gradients, context):
        whole = {{name: value + self.left.get(name, 0) for name, value in gradients.items()}}
        sent = {sent}
        self.left.update({left})
        return sent
"""
REMEMBERING = {
    "top-k with error feedback": (
        {"sent": "by_size(whole, 0.1)", "left": "{name: whole[name] - sent[name] for name in whole}"},
        {"memory": "error feedback", "zeros": {"chosen": "smallest of all", "rest": "exact"}},
    ),
    "momentum": (
        {"sent": "whole", "left": "{name: 0.9 * whole[name] for name in whole}"},
        {"memory": "other", **LINEAR},
    ),
}
HOUSE = {
    "base:NoDefense": {"nothing": True},
    "lrp:LearningRatePerturbation": {"factor": {"scope": "one"}, **ANEW},
    "lrp:LocalStepPerturbation": {"steps": {"low": 1, "high": 7}, **LINEAR},
    "lrp:HiddenClassifier": {"hidden": ..., **LINEAR},
    "noise:AdditiveNoise": {"noise": {"law": "normal"}, **ANEW, **LINEAR},
    "noise:LaplaceNoise": {"noise": {"law": "Laplace"}, **ANEW, **LINEAR},
    "noise:GradientClipping": {"clips": {"scope": "whole", "bound": 4.0}},
    "noise:ClippingNoise": {"noise": {"law": "normal"}, "clips": {"scope": "whole", "bound": 4.0}, **ANEW},
    "dp_sgd:DpSgd": {"noise": {"law": "normal"}, "clips": {"scope": "whole", "bound": 0.04}, **ANEW},
    "outpost:GradientCompression": {"zeros": {"chosen": "smallest of each tensor", "rest": "exact"}},
    "outpost:Outpost": {
        "noise": {"law": "normal", "chosen": "largest of each tensor"},
        "zeros": {"chosen": "smallest of each tensor", "rest": "exact"},
        "looks at": ["weights"],
        **ANEW,
    },
    "soteria:Soteria": {
        "looks at": ["image", "weights"],
        "zeros": {"chosen": "fixed columns", "rest": "exact"},
        **LINEAR,
    },
    "grad_defense:GradDefense": {"looks at": ["image", "label", "weights"], "noise with more": True, **ANEW},
}


def as_function(body: str) -> str:
    """Return a file with the body of one function."""
    return f"{HEAD}\ndef defend(gradients, context):\n    {body}\n"


SOURCES = {
    **{name: (as_function(body), facts) for name, (body, facts) in INVENTED.items()},
    **{name: (HEAD + WITH_MEMORY.format(**parts), facts) for name, (parts, facts) in REMEMBERING.items()},
    **{
        name: ("from leaklab.defenses.{} import {} as it\nPLUGIN = it()\n".format(*name.split(":")), facts)
        for name, facts in HOUSE.items()
    },
}
