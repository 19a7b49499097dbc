"""Ways to one evaluation of IG on a residual network, side by side, and how far each is from what the processor can do.

PYTHONPATH=benchmarks .venv/bin/python -m attack_speed.ways      writes benchmarks/attack_ways.md
"""

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from paper_hours.counting import Counter
from speed.costs import one_thread
from speed.machine import description
from speed.peak import peaks
from speed.turns import in_turns
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from attack_speed.material import Material, made
from attack_speed.objectives import TV_WEIGHT, border_variation, gradients, objective
from attack_speed.workers.ours import Ours
from attack_speed.workloads import WORKLOADS, Workload
from leaklab.records.files import write_text

PAGE = Path("benchmarks/attack_ways.md")
WORKLOAD, REPEATS, GIGA = "a2-ig", 7, 1e9
IN_USE = "products of gradients, none formed, trials side by side (in use)"
GRADIENT = "the gradient alone, not matched: what a step of training does"
Way = Callable[[], Tensor | None]
"""Evaluates all trials once; the derivative [T, n] of what is minimised, None where nothing is matched."""


@dataclass(frozen=True)
class Found:
    """What a way takes for one trial.

    Attributes:
        seconds: of a processor.
        flop: operations of matrix products and convolutions.
    """

    seconds: float
    flop: float


def main() -> None:
    """Measure all ways in turns, so that what the machine does besides falls on all of them alike."""
    one_thread()
    (workload,) = (one for one in WORKLOADS if one.name == WORKLOAD)
    text = page(measured(ways(made(workload), workload), workload.trials, REPEATS), max(peaks().values()))
    write_text(PAGE, text)
    sys.stdout.write(text)


def measured(made_ways: Mapping[str, Way], trials: int, repeats: int) -> dict[str, Found]:
    """Return medians of some turns by way, for one trial."""
    seconds = in_turns(made_ways, repeats)
    return {name: Found(seconds[name] / trials, _flop(way) / trials) for name, way in made_ways.items()}


def _flop(way: Way) -> float:
    with Counter() as counter:
        way()
    return counter.count[0]


def ways(material: Material, workload: Workload) -> dict[str, Way]:
    """Return the ways by what they are."""
    last = replace(material, network=deepcopy(material.network).to(memory_format=torch.channels_last))
    shown = "double backward, one trial after another"
    return {
        IN_USE: partial(_products, Ours(workload, replace(material, network=deepcopy(material.network)))),
        "the same, channels last": partial(_products, Ours(workload, replace(last, network=deepcopy(last.network)))),
        shown: partial(_one_by_one, workload, material),
        f"{shown}, channels last": partial(_one_by_one, workload, last),
        "double backward, trials side by side by `torch.func`": partial(_side_by_side, material),
        GRADIENT: partial(_gradient, material),
        f"{GRADIENT}, channels last": partial(_gradient, last),
    }


def _products(ours: Ours) -> Tensor:
    return ours.minimised(ours.material.points, torch.arange(ours.workload.trials))[1]


def _one_by_one(workload: Workload, material: Material) -> Tensor:
    found = []
    for trial in range(workload.trials):
        images, labels = material.split(material.points[trial].clone(), trial)
        images.requires_grad_()
        value = objective(workload.attack, material.network, material.observed(trial), images, labels)
        found.append(torch.autograd.grad(value, images)[0].flatten())
    return torch.stack(found)


def _side_by_side(material: Material) -> Tensor:
    images = material.points.view(len(material.points), 1, *material.images.shape[1:]).clone().requires_grad_()
    weights = {name: value.detach() for name, value in material.network.named_parameters()}

    def loss(own: Mapping[str, Tensor], seen: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(material.network, dict(own), (seen,)), label)

    by_name = vmap(grad(loss), in_dims=(None, 0, 0))(weights, images, material.labels[:, None])
    formed = [by_name[name].flatten(1) for name in weights]
    pairs = list(zip(formed, (seen.flatten(1) for seen in material.gradients), strict=True))
    product = torch.stack([(own * seen).sum(1) for own, seen in pairs]).sum(0)
    own, seen = (torch.stack([(pair[k] ** 2).sum(1) for pair in pairs]).sum(0).sqrt() for k in (0, 1))
    values = 1 - product / (own * seen) + TV_WEIGHT * border_variation(images)
    return torch.autograd.grad(values.sum(), images)[0].flatten(1)


def _gradient(material: Material) -> None:
    network: nn.Module = material.network
    for trial in range(len(material.points)):
        gradients(network, *material.split(material.points[trial], trial))


def page(found: Mapping[str, Found], peak: float) -> str:
    """Return the page.

    Args:
        found: by way, the one in use among them.
        peak: largest rate that one thread reached, in GFLOP/s.
    """
    unit = found[IN_USE].seconds
    lines = [
        f"| {name} | {1e3 * one.seconds:.0f} | {one.seconds / unit:.2f} | {one.flop / GIGA:.2f} | "
        f"{one.flop / GIGA / one.seconds:.1f} | {one.flop / GIGA / one.seconds / peak:.0%} | "
        f"{1e3 * one.flop / GIGA / peak:.0f} |"
        for name, one in found.items()
    ]
    return (
        "# Ways to an evaluation of IG on a residual network\n\n"
        f"`PYTHONPATH=benchmarks .venv/bin/python -m attack_speed.ways` made this page on\n{description()}:\n"
        "ResNet-18 with CIFAR stem in evaluation state, single images, value and derivative of cosine and smoothing,\n"
        f"one thread; medians of processor time over {REPEATS} turns. All ways find the same derivative. *GFLOP* are\n"
        "those of matrix products and convolutions, which passes over values (normalisation, activations, sums) add\n"
        f"none to. The best product or convolution of one thread here does {peak:.0f} GFLOP/s; *at the peak* is what\n"
        "the same operations would take at that rate, with nothing between them.\n\n"
        "| way | CPU ms a trial | x in use | GFLOP | GFLOP/s | of the peak | ms at the peak |\n"
        "| --- | --: | --: | --: | --: | --: | --: |\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
