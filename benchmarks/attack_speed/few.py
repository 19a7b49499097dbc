"""Gradients of few samples, and derivatives through them: compiled steps beside products of matrices.

PYTHONPATH=benchmarks .venv/bin/python -m attack_speed.few      writes benchmarks/attack_few.md

``attacks/matching/compiled`` leaves few samples of a network with many products to the other way; here it does not.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from speed.costs import one_thread
from speed.machine import description
from speed.page import markdown, wrapped
from speed.turns import in_turns
from torch import Tensor, nn

from leaklab.attacks.matching import compiled, gradients
from leaklab.models.lanes.description import Description
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import write_text
from leaklab.records.streams import stream

PAGE = Path("benchmarks/attack_few.md")
REPEATS, CLASSES, MILLION = 9, 10, 1e6
GRAY, COLOR = (1, 28, 28), (3, 32, 32)
NETWORKS: tuple[tuple[str, Mapping[str, object], tuple[int, int, int]], ...] = (
    ("dlg-lenet", {}, GRAY), ("dlg-lenet", {}, COLOR), ("cnn-small", {"dropout": 0.0}, GRAY),
    ("cnn-leaky", {"convolutions": 2}, GRAY), ("cnn-leaky", {"convolutions": 3}, COLOR), ("cnn-mnist", {}, GRAY),
)  # fmt: skip
SAMPLES = (1, 2, 3, 4, 8)


def main() -> None:
    """Measure every network, precision and number of samples; either way in turns."""
    one_thread()
    rows = [row_of(*network, dtype) for network in NETWORKS for dtype in (torch.float32, torch.float64)]
    text = page(rows)
    write_text(PAGE, text)
    sys.stdout.write(text)


def row_of(name: str, settings: Mapping[str, object], shape: tuple[int, int, int], dtype: torch.dtype) -> list[str]:
    """Return a network, its precision, its products, and the ratio of times for each number of samples.

    Raises:
        UserError: there are no compiled steps.
    """
    network = plugins.load("models", name, dict(settings)).build(shape, CLASSES).to(dtype).eval().requires_grad_(False)
    way, other = gradients.trial_gradients(network), gradients.layered_gradients
    if not isinstance(way, compiled.CompiledGradients):
        raise UserError("compiled steps cannot be had on this machine: install a C++ compiler")
    ratios, few = [], compiled.FEW
    compiled.FEW = ()
    try:
        for samples in SAMPLES:
            images, targets = (part.to(dtype) for part in _drawn(samples, shape))
            ours, theirs = (partial(_once, one, network, images, targets) for one in (way, other))
            found = in_turns({"ours": ours, "other": theirs}, REPEATS)
            ratios.append(f"{found['other'] / found['ours']:.2f}")
    finally:
        compiled.FEW = few
    products = Description.of(network, shape, dropping=False).products
    size = "x".join(map(str, shape))
    return [f"{name}, {size}", str(dtype).removeprefix("torch."), f"{products / MILLION:.2f}", *ratios]


def _drawn(samples: int, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    draws = stream(0, "few")
    return draws.normal(samples, 1, *shape), torch.softmax(draws.normal(samples, 1, CLASSES), -1)


def _once(way: gradients.TrialGradients, network: nn.Sequential, images: Tensor, targets: Tensor) -> Tensor:
    inputs = images.clone().requires_grad_()
    norms = [(one.flatten(1) ** 2).sum(1).sqrt().sum() for one in way(network, inputs, targets)]
    return torch.autograd.grad(torch.stack(norms).sum(), inputs)[0]


def page(rows: list[list[str]]) -> str:
    """Return the page of rows, see ``row_of``."""
    left = " and ".join(
        f"up to {few} samples of a network with more than {many / MILLION:g} million products a sample"
        for many, few in reversed(compiled.FEW)
    )
    heads = ["", "", "million products a sample", *(f"{samples}" for samples in SAMPLES)]
    return wrapped(
        "# Few samples of a convolutional network\n\n"
        f"`PYTHONPATH=benchmarks .venv/bin/python -m attack_speed.few` made this page on {description()}. How many "
        "times as fast as products of matrices compiled steps are, by the number of samples, for gradients and a "
        f"derivative through their norms; one thread, medians of processor time over {REPEATS} turns. Left to "
        f"products of matrices are {left} (`attacks/matching/compiled.py`); for this page they are not.\n\n"
        f"{markdown(heads, rows)}\n"
    )


if __name__ == "__main__":
    main()
