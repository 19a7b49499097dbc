"""Draw the pictures of the pages on attacks: run ``python docs/draw_attacks.py`` where they are out of date.

One shows how far all tokens at all places are from the span of a gradient. The other shows what priors make of the same
updates, and needs the runs of ``results/small/outpost/learned-prior.csv``.
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from leaklab.attacks.spans.reading import input_span
from leaklab.attacks.spans.span import Candidates, Span
from leaklab.items.expand import expand
from leaklab.items.items import load_item
from leaklab.metrics.guesses import match, reorder
from leaklab.metrics.pixel import PeakSignalToNoiseRatio
from leaklab.models.text.decoders import Gpt2, gradients_of
from leaklab.models.text.first_block import first_block
from leaklab.records.files import read_tensors
from leaklab.records.streams import stream
from leaklab.report.figures.style import FAINT, PALETTE, QUIET, new_figure, save, styled
from leaklab.specs.base import run_folder

DOCS = Path(__file__).parent
WIDTH, VOCABULARY, SENTENCES, LENGTH = 128, 1000, 4, 12
PRIORS = {"own": "Gaussian\nof each class", "pooled": "one\ncovariance", "denoiser": "denoiser"}
SHOWN = (("outpost", "all"), ("outpost", 20), ("noise", "all"), ("noise", 20))
CASES = {"outpost": "OUTPOST", "noise": "noise 0.1"}
IMAGES = (1, 3)
NEEDED = "make it by snakemake --cores 2 --config scale=small -- results/small/outpost/learned-prior.csv"


def distances() -> tuple[Tensor, Tensor, Span]:
    """Return the distance of every token at every place [V, P] from the span, which are in the batch, and the span."""
    network = Gpt2(width=WIDTH, positions=LENGTH).initialised(VOCABULARY, 2, 0)
    ids = stream(0, "picture").integers(1, VOCABULARY, SENTENCES, LENGTH)
    block = first_block(network)
    span = input_span(block, gradients_of(network, ids, torch.zeros(SENTENCES, dtype=torch.int64)), "attention")
    tokens, places = (
        grid.flatten() for grid in torch.meshgrid(torch.arange(VOCABULARY), torch.arange(LENGTH), indexing="ij")
    )
    found = Candidates(block).distances(span, tokens, places).view(VOCABULARY, LENGTH)
    there = torch.zeros(VOCABULARY, LENGTH, dtype=torch.bool)
    there[ids, torch.arange(LENGTH)] = True
    return found, there, span


def draw_span() -> Figure:
    """Draw the distances, place by place."""
    found, there, span = distances()
    figure = new_figure(height=2.9)
    axes = figure.add_subplot()
    shift = stream(0, "shift").uniform(*found.shape).double() * 0.7 - 0.35
    places = torch.arange(LENGTH)[None] + 1 + shift
    axes.scatter(places[~there], found[~there], s=2, color=FAINT, linewidths=0, label="any other token there")
    axes.scatter(places[there], found[there], s=16, color=PALETTE[1], linewidths=0, label="token of a sentence there")
    axes.axhline(span.tolerance, color=PALETTE[0], linewidth=1)
    axes.annotate(f"tolerance, 10 / gap: {span.tolerance:.0e}", (LENGTH + 0.5, span.tolerance), (0, 3),
                  textcoords="offset points", ha="right", color=PALETTE[0])  # fmt: skip
    axes.set(yscale="log", xlabel="place in the sentence", ylabel="distance from the span", xlim=(0.5, LENGTH + 0.5))
    axes.set_xticks(range(1, LENGTH + 1))
    figure.legend(loc="outside upper left", ncols=2, markerscale=1.5)
    return figure


def draw_priors() -> Figure:
    """Draw what attackers with different priors make of the same updates."""
    runs = {}
    for run in expand(load_item(DOCS.parent / "config/items/outpost/learned-prior.yaml"), "small"):
        row = run.choice["row"]
        runs[row["case"], row["public"], run.block] = run.spec.attack
        if not (run_folder(run.spec.attack) / "reconstruction.safetensors").is_file():
            raise SystemExit(f"no {run_folder(run.spec.attack)}: {NEEDED}")
    columns = 1 + len(PRIORS)
    figure = new_figure(width=7.0, height=4.4)
    grid = figure.subplots(len(SHOWN), columns * len(IMAGES), squeeze=False)
    for number, (row, (case, public)) in enumerate(zip(grid, SHOWN, strict=True)):
        for place, image in enumerate(IMAGES):
            own = row[place * columns : (place + 1) * columns]
            for axes, (prior, title) in zip(own, {"": "private", **PRIORS}.items(), strict=True):
                attack = runs[case, public, prior or "own"]
                truth = read_tensors(run_folder(attack.capture) / "truth.safetensors")["images"]
                shown = truth
                if prior:
                    guesses = read_tensors(run_folder(attack) / "reconstruction.safetensors")["images"]
                    shown = reorder(guesses, match(guesses, truth))
                axes.imshow(shown[image, 0, 0].clamp(0, 1), cmap="gray", vmin=0, vmax=1)
                (level,) = PeakSignalToNoiseRatio().values(shown[image], truth[image])
                axes.set_xlabel(f"{float(level):.0f} dB" if prior else "", labelpad=1)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if number == 0:
                    axes.set_title(title)
        row[0].set_ylabel(f"{CASES[case]}\n{public} a class", color=QUIET)
    return figure


def main() -> None:
    """Draw both."""
    with styled():
        save(draw_span(), png=DOCS / "span-reading.png")
        save(draw_priors(), png=DOCS / "learned-prior.png")


if __name__ == "__main__":
    main()
