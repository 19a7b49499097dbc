"""The page: what each attempt came to, in numbers of the table, and what the counts of equations say."""

import pandas as pd
from speed.page import markdown

from residual_reading.cases import DEPTH, MAP, MEAN, PEEL, PEEL_ONLY

GOOD = 30.0
INTRO = """# ResNet-20, read from its head

`PYTHONPATH=benchmarks .venv/bin/python -m residual_reading` made this page, on one thread, and goes on where it was
stopped. Each client holds one image of a test part and sends one float32 gradient of a network of its own, as
initialised, in evaluation mode. The prior is the Gaussian of the class in the training part. Settings were chosen on
images 20 to 22, earlier versions were seen on images 80 to 97, and numbers here are of images 98 and up. The last
version, which is that of `residual-peel`, was mended on 98, 100, 102 and 103; the others were looked at once. "Read"
counts images of 30 dB and more. "Loss" is the squared misfit of the whole gradient, relative to it, where the attempt
ended; at the truth it is rounding. "Wrong" is the share of ReLU cells, all layers together, whose state is
not the truth's. Lines named "oracle" were granted what no server knows, to see what stands in between. annealed-map has
40 evaluations a stage here, so that all that matches costs about the same. Attempts with two images are a pilot."""
PEELING = """## What reads it

A 3x3 convolution's gradient is one matrix for each of its nine taps, G_k = E S_k U: errors, a known shift, inputs. In
the last convolution the head tells E but for which cells are on. Where E has as many independent columns as the map
has places, G_k over G_centre are the shifts in an unknown basis, and that basis is the solution of linear
equations, unique but for a factor. No search and no start is needed. From then on errors are known, and each
convolution's input is least squares; cells that rounding leaves in doubt are set by the residual ("corrected").
The first block of the second stage ends this: its inner map and its output are known, and a picture that makes both is
sought under the prior. Both maps are continuous in the picture, while the gradient jumps with every ReLU. Least squares
with the derivatives of all their cells end it. "Certified" pictures are determined by the maps, make them, and make the
gradients of all layers."""
COUNTS = """## Equations and unknowns

For one channel of the input of a convolution, with its errors known. Where the equations are fewer, what was read
above has to tell the rest."""
BASIN = """## How wide the truth's basin is

Gradient matching at the finest width, from the truth and noise (oracle)."""
LAST = """## What fails

* Matching does not see the ReLUs of late layers: their masks enter the errors of all layers before, and the gradient
  jumps with each. The tables above say how far it comes from the class mean, and from the truth's neighbourhood.
* The last errors are the same in all places, so that all filters that are on everywhere are alike. On 32x32 images
  there are as many places as filters in the last stage, and the rank falls short. The convolution before is then
  turned round: its inputs passed a shortcut, most often have full rank, and take the errors' part. "Peeled, maps only"
  shows how far that comes on images of CIFAR-10; no picture was sought there. Below it one filter that is never on
  takes nine equations away from each channel, and the second stage has few to spare there.
* Below the convolution that ends it (first table of equations) nothing is read layer by layer: the picture is a search.
  Where the peeling ends above that convolution, the nearest maps that closed take its place.
* Not measured here: trained weights, other depths, hidden factors, rounding at small rates. Tests read networks with
  drawn statistics, other kernels and shortcuts, and torchvision's ResNet-18."""
Table = pd.DataFrame


def page(table: Table) -> str:
    """Return the page in Markdown."""
    parts = [INTRO, _attempts(table), PEELING, _peeled(table), COUNTS, _counts(), BASIN, _basin(table), LAST]
    return "\n\n".join(parts) + "\n"


def _attempts(table: Table) -> str:
    lines = []
    for (data, attacker), own in table[table["psnr"].notna()].groupby(["data", "attacker"], sort=False):
        decibels, loss, truth = own["psnr"], own["loss"].median(), own["loss_of_truth"].median()
        cells = [f"{decibels.median():.1f}", f"{decibels.min():.1f}", f"{decibels.max():.1f}", f"{loss:.0e}"]
        more = [f"{truth:.0e}", f"{100 * own['wrong'].median():.1f} %", f"{own['seconds'].median():.1f}"]
        lines.append([f"{data}: {attacker}", str(len(own)), str(int((decibels >= GOOD).sum())), *cells, *more])
    heads = ["attempt", "n", "read", "median dB", "lowest", "highest", "loss", "at the truth", "wrong", "median s"]
    return "\n\n".join([markdown(heads, lines), _paired(table)])


def _paired(table: Table) -> str:
    wide = table.pivot_table(index=["data", "image"], columns="attacker", values="psnr")
    sentences = list[str]()
    for other in (MEAN, MAP):
        if other in wide and PEEL in wide:
            gain = (wide[PEEL] - wide[other]).dropna()
            sentences.append(
                f"{len(gain)} pairs with {other}: {gain.median():+.1f} dB in the median, {gain.min():+.1f} at least."
            )
    return " ".join(sentences)


def _peeled(table: Table) -> str:
    own = table[table["attacker"].isin([PEEL, PEEL_ONLY])]
    lines = [
        [
            f"{row.data} {row.image}", f"{row.places:.0f}", f"{row.rank:.0f}", f"{row.layers:.0f} of {DEPTH}",
            f"{row.worst:.0e}", f"{row.flips:.0f}", "yes" if row.closed else "no", f"{row.fitted:.1f}",
            "-" if pd.isna(row.psnr) else f"{row.psnr:.1f}", "yes" if row.certified is True else "no",
        ]
        for row in own.itertuples()
    ]  # fmt: skip
    heads = [
        "image",
        "places",
        "rank",
        "convolutions",
        "largest residual",
        "corrected",
        "closed",
        "s",
        "dB",
        "certified",
    ]
    return markdown(heads, lines)


def _counts() -> str:
    lines = []
    for name, filters, scale in (
        ("stage 3", 64, 4), ("first of stage 3", 64, 2), ("stage 2", 32, 2), ("first of stage 2", 32, 1),
        ("stage 1", 16, 1),
    ):  # fmt: skip
        unknowns = [(side // scale) ** 2 for side in (28, 32)]
        lines.append([name, str(9 * filters), *map(str, unknowns), *(_enough(9 * filters, one) for one in unknowns)])
    return markdown(["convolution", "equations", "unknowns, 28x28", "32x32", "enough, 28x28", "enough, 32x32"], lines)


def _enough(equations: int, unknowns: int) -> str:
    return "yes" if equations >= unknowns else "no"


def _basin(table: Table) -> str:
    own = table[table["start_psnr"].notna()] if "start_psnr" in table else table[:0]
    lines = [
        [
            f"{row.attacker.removeprefix('oracle: ')}, image {row.image}", f"{row.start_psnr:.1f}", f"{row.psnr:.1f}",
            f"{100 * row.start_wrong:.1f} %", f"{100 * row.wrong:.1f} %", f"{row.start_loss:.0e}", f"{row.loss:.0e}",
        ]
        for row in own.itertuples()
    ]  # fmt: skip
    return markdown(["start", "dB", "end", "wrong", "end", "loss", "end"], lines)
