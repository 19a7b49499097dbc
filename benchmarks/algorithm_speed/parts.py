"""What a step of HyperFL does beside FedAvg's, part by part, and other ways to do it: what stands between it and less.

PYTHONPATH=benchmarks .venv/bin/python -m algorithm_speed.parts      writes benchmarks/algorithm_parts.md
"""

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import torch
from speed.costs import CLASSES, network_of, one_thread
from torch import Tensor

from algorithm_speed.workloads import WORKLOADS
from leaklab.federated.batches import Batch
from leaklab.federated.forms.dense import keep_freed_memory
from leaklab.federated.forms.low_rank import Heads, _times
from leaklab.federated.forms.network import trainable
from leaklab.federated.optimizers import Sgd
from leaklab.records.files import write_text

WORK = WORKLOADS[1]
CLIENTS, STEPS, HIDDEN_UNITS, REPEATS = WORK.clients, WORK.local_steps, 128, 15
MEAN_DONE = STEPS // 2
RATE, WEIGHT = 0.02, 1 / WORK.clients
PAGE = Path("benchmarks/algorithm_parts.md")
Part = Callable[[], object]
ONCE_A_ROUND, EACH_STEP = CLIENTS * STEPS, CLIENTS
"""Client steps among which the cost of a part is shared."""


def main() -> None:
    """Measure all parts in turns, so that what the machine does besides falls on all of them alike."""
    one_thread()
    keep_freed_memory()
    material = Material()
    parts = {**material.parts(), **material.other_ways()}
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(1 + REPEATS):
        for name, (part, _) in parts.items():
            start = time.process_time()
            part()
            times[name].append(time.process_time() - start)
    found = {name: median(own[1:]) / parts[name][1] for name, own in times.items()}  # the first turn warms up
    text = page(found, list(material.other_ways()), material.copied())
    write_text(PAGE, text)
    sys.stdout.write(text)


class Material:
    """Tensors of a round's middle, of the sizes that table 1 of HyperFL trains with."""

    def __init__(self) -> None:
        network = network_of(WORK, 0)
        self.weights = {
            name: value.detach().expand(CLIENTS, *value.shape).clone() for name, value in network.named_parameters()
        }
        self.form = trainable(network, WORK.image_shape)
        generated = [name for name in self.weights if not name.startswith(last_layer(self.weights))]
        self.outputs = sum(self.weights[name][0].numel() for name in generated)
        # an own generator: only the cost is compared, and what the pixels are does not change it
        draws = torch.Generator().manual_seed(0)  # one of its own: the same material for all
        images = torch.randn(CLIENTS, WORK.batch_size, *WORK.image_shape, generator=draws)
        self.batch = Batch(images, torch.randint(CLASSES, (CLIENTS, WORK.batch_size), generator=draws), {})
        self.g, self.u = (torch.randn(CLIENTS, size, generator=draws) for size in (self.outputs, HIDDEN_UNITS))
        self.first = torch.randn(1, self.outputs, HIDDEN_UNITS, generator=draws)
        self.begun, self.half, self.done = (self.after(steps) for steps in (0, MEAN_DONE, STEPS))
        self.biases = torch.randn(CLIENTS, self.outputs, generator=draws)
        self.rates = torch.full((CLIENTS,), RATE)
        self.thin = self.after(MEAN_DONE, columns=1)
        self.whole = self.done.whole()
        self.total = torch.zeros_like(self.first[0])

    def after(self, steps: int, columns: int = 0) -> Heads:
        """Return heads after so many steps; ``columns`` more hold the biases."""
        first = torch.cat([self.first, self.first[:, :, :columns]], 2)
        heads = Heads(first, CLIENTS, STEPS + 1)
        u = torch.cat([self.u, torch.ones(CLIENTS, columns)], 1)
        for _ in range(steps):
            heads.step(self.g, u, torch.ones(CLIENTS), torch.full((CLIENTS,), RATE), WORK.momentum, WORK.weight_decay)
        return heads

    def parts(self) -> dict[str, tuple[Part, int]]:
        """Return what is done now: the part, and the client steps that share it."""
        optimizer = Sgd(WORK.momentum)
        state = optimizer.start({"c": self.biases})
        sizes = [value[0].numel() for value in self.weights.values()]
        whole = torch.cat([value.flatten(1) for value in self.weights.values()], 1)
        return {
            "gradient of the network: what FedAvg does too": (
                partial(self.form.gradients, self.weights, self.batch), EACH_STEP),
            "heads that all share, read twice": (partial(self.both, self.begun, self.u), EACH_STEP),
            f"the same with {MEAN_DONE} past steps, read twice": (partial(self.both, self.half, self.u), EACH_STEP),
            "heads' biases: momentum, decay, step": (
                lambda: optimizer.step(state, {"c": self.biases}, {"c": self.g}, self.rates, WORK.weight_decay),
                EACH_STEP),
            "gradients side by side, weights apart": (
                lambda: torch.cat([part.clone() for part in whole.split(sizes, 1)], 1), EACH_STEP),
            "mean of all clients' heads, from their thin terms": (
                lambda: self.done.sum(range(CLIENTS), [WEIGHT] * CLIENTS), ONCE_A_ROUND),
        }  # fmt: skip

    def other_ways(self) -> dict[str, tuple[Part, int]]:
        """Return ways that are not in use."""
        with_ones = torch.cat([self.u, torch.ones(CLIENTS, 1)], 1)
        half_precision = self.after(MEAN_DONE)
        half_precision._g = half_precision._g.bfloat16()
        return {
            f"biases as one more column of the heads, with {MEAN_DONE} past steps": (
                partial(self.both, self.thin, with_ones), EACH_STEP),
            "each client's heads formed": (self.done.whole, ONCE_A_ROUND),
            "and the mean of these": (self.mean_of_formed, ONCE_A_ROUND),
            f"past steps in bfloat16 (not exact), with {MEAN_DONE} of them": (
                partial(both_in_half, half_precision, self.u, self.g), EACH_STEP),
        }  # fmt: skip

    def both(self, heads: Heads, u: Tensor) -> object:
        """Generate the networks and take the derivative at the hidden units."""
        return heads.generate(u), heads.pull(self.g)

    def mean_of_formed(self) -> None:
        """Do what a server does with the heads that it gets."""
        self.total.zero_()
        for heads in self.whole:
            self.total.add_(heads, alpha=WEIGHT)

    def copied(self) -> float:
        """Return the bytes per second, read and written, of copying what does not fit into a cache."""
        target, seconds = torch.empty_like(self.whole), []
        for _ in range(5):
            start = time.process_time()
            target.copy_(self.whole)
            seconds.append(time.process_time() - start)
        return 2 * self.whole.nbytes / median(seconds)


def both_in_half(heads: Heads, u: Tensor, g: Tensor) -> object:
    """Do what ``Material.both`` does, with past derivatives that take half the room."""
    past, own = heads._g[:, : heads._done], heads._u[:, : heads._done]
    factors = heads._terms[:, : heads._done]
    theta = _times(u, heads._first.transpose(1, 2)) * heads._scale[:, None]
    theta += _times((factors * _times(u, own.transpose(1, 2))).bfloat16(), past)
    at_u = _times(g, heads._first) * heads._scale[:, None]
    return theta, at_u + _times(factors * _times(g.bfloat16(), past.transpose(1, 2)).float(), own)


def last_layer(weights: Mapping[str, Tensor]) -> str:
    """Return the name of the classifier, which nobody generates."""
    return list(weights)[-1].rpartition(".")[0]


def page(seconds: Mapping[str, float], other: list[str], copied: float) -> str:
    """Return the table; the first part is what the others are multiples of."""
    unit = next(iter(seconds.values()))
    lines = {name: f"| {name} | {1e3 * own:.2f} | {own / unit:.2f} |" for name, own in seconds.items()}
    now, ways = ([lines[name] for name in lines if (name in other) is wanted] for wanted in (False, True))
    head = "| part | CPU ms per client step | x gradient |\n| --- | --: | --: |\n"
    return (
        "# Parts of a step of HyperFL\n\n"
        "`PYTHONPATH=benchmarks .venv/bin/python -m algorithm_speed.parts` made this page: the network of its tables,\n"
        f"28x28, batches of {WORK.batch_size}, {CLIENTS} clients together, {STEPS} steps a round, one thread; medians\n"
        f"of processor time over {REPEATS} turns. A large copy moved {copied / 1e9:.1f} GB/s in the same process.\n\n"
        "What is done now:\n\n" + head + "\n".join(now) + "\n\n"
        "Other ways, not in use:\n\n" + head + "\n".join(ways) + "\n"
    )


if __name__ == "__main__":
    main()
