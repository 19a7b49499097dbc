"""What the dear defenses do in a step, part by part, and other ways to do it: what stands between them and less.

PYTHONPATH=benchmarks .venv/bin/python -m defense_speed.parts      writes benchmarks/defense_parts.md
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from speed.costs import one_thread
from speed.turns import in_turns
from torch import Tensor, nn
from torch.func import jvp, vmap

from leaklab.defenses import per_sample as formulas
from leaklab.defenses.per_sample import sample_gradients
from leaklab.defenses.soteria_probes import probed_ratios
from leaklab.models.base import Architecture
from leaklab.records import plugins
from leaklab.records.files import write_text
from leaklab.records.streams import stream

BATCH, SHAPE, CLASSES, PROBES, REPEATS = 32, (1, 28, 28), 10, 4, 200
PAGE = Path("benchmarks/defense_parts.md")
Part = Callable[[], object]


def main() -> None:
    """Measure all parts in turns, so that what the machine does besides falls on all of them alike."""
    one_thread()
    found = in_turns(made(), REPEATS)
    text = page(found)
    write_text(PAGE, text)
    sys.stdout.write(text)


def page(seconds: Mapping[str, float]) -> str:
    """Return the table; the first part is what the others are multiples of."""
    unit = next(iter(seconds.values()))
    lines = [f"| {name} | {1e3 * own:.2f} | {own / unit:.2f} |" for name, own in seconds.items()]
    return (
        "# Parts of a step under the dear defenses\n\n"
        f"`PYTHONPATH=benchmarks .venv/bin/python -m defense_speed.parts` made this page: LeNet of four convolutions,\n"
        f"28x28, a batch of {BATCH}, one client, one thread; medians of processor time over {REPEATS} turns.\n"
        "Forward differentiation and finite differences are other ways to Soteria's probes, not in use.\n\n"
        "| part | CPU ms | x gradient |\n| --- | --: | --: |\n" + "\n".join(lines) + "\n"
    )


def made() -> dict[str, Part]:
    """Return the parts by what they are."""
    model: Architecture = plugins.load("models", "dlg-lenet")
    network = model.initialised(SHAPE, CLASSES, 1024).eval()
    # an own generator: only the cost is compared, and what the pixels are does not change it
    draws = torch.Generator().manual_seed(0)  # one of its own: the same material for all
    batch = {
        "images": torch.randn(BATCH, *SHAPE, generator=draws),
        "labels": torch.randint(CLASSES, (BATCH,), generator=draws),
    }
    names = [name for name, _ in network.named_parameters()]
    entries = sum(value.numel() for value in network.parameters())
    front, images = network[:-1], batch["images"]
    return {
        "gradient of the batch: forward and backward": partial(gradient, network, batch),
        "grad-defense: every sample's gradient, by formulas": partial(sample_gradients, network, batch, names),
        "grad-defense: the same by `F.unfold`": partial(unfolded, network, batch, names),
        "grad-defense: the same by vectorised differentiation": partial(formulas._lifted, network, batch, names),
        "grad-defense: the same, one sample after another": partial(one_by_one, network, batch),
        "grad-defense: noise for half of the entries": lambda: stream("noise").normal(entries // 2),
        "soteria-probes: forward alone": partial(no_grad, lambda: front(images)),
        f"soteria-probes: {PROBES} tangents through the layers": lambda: probed_ratios(
            front, images, PROBES, stream("probes")
        ),
        f"soteria-probes: {PROBES} tangents by forward differentiation": partial(tangents, front, images),
        f"soteria-probes: {PROBES} finite differences": partial(differences, front, images),
        "soteria-probes: one tangent": lambda: probed_ratios(front, images, 1, stream("probes")),
    }


def gradient(network: nn.Module, batch: Mapping[str, Tensor]) -> object:
    """Do what a step without defense does."""
    return torch.autograd.grad(F.cross_entropy(network(batch["images"]), batch["labels"]), list(network.parameters()))


def unfolded(network: nn.Sequential, batch: Mapping[str, Tensor], names: list[str]) -> object:
    """Take what a convolution sees from ``F.unfold``."""
    own = formulas.kernel_gradients
    formulas.kernel_gradients = by_unfold
    try:
        return sample_gradients(network, batch, names)
    finally:
        formulas.kernel_gradients = own


# tests/benchmarks/test_defense_benchmark.py compares the ways to a sample's gradient
def by_unfold(layer: nn.Conv2d, inputs: Tensor, slope: Tensor) -> Tensor:
    """Return ``kernel_gradients`` by another way."""
    seen = F.unfold(inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    return (slope.flatten(2) @ seen.transpose(1, 2)).view(len(inputs), *layer.weight.shape)


def one_by_one(network: nn.Module, batch: Mapping[str, Tensor]) -> object:
    """Differentiate each sample's loss."""
    return [gradient(network, {name: value[i : i + 1] for name, value in batch.items()}) for i in range(BATCH)]


@torch.no_grad()
def no_grad(part: Part) -> object:
    """Run without a graph."""
    return part()


@torch.no_grad()
def tangents(front: nn.Sequential, images: Tensor) -> object:
    """Push tangents through the network by torch's forward differentiation."""
    return vmap(lambda own: jvp(front, (images,), (own,))[1])(torch.randn(PROBES, *images.shape).sign())


@torch.no_grad()
def differences(front: nn.Sequential, images: Tensor) -> object:
    """Estimate the tangents from values a little beside the images."""
    moved = images + 1e-3 * torch.randn(PROBES, *images.shape).sign()
    return (front(moved.flatten(0, 1)).unflatten(0, (PROBES, -1)) - front(images)) / 1e-3


if __name__ == "__main__":
    main()
