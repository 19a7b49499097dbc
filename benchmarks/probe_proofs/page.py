"""The page of what was measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probe_proofs.misses import EXACT, Try

if TYPE_CHECKING:
    from probe_proofs.__main__ import Row

HEAD = """# What is proven without a search

Made by `PYTHONPATH=benchmarks python -m probe_proofs`: {kinds} kinds of clients, {tries} near-misses, {seconds:.0f}
seconds of one processor. Clients train as their row says, else one step of SGD on all samples, in float64 where the
network is ours and in float32 where a library or the row says so; they send weights after less weights before. Samples
are faces of scikit-image, tokens are random. `lowest` is the PSNR of the worst proven reading, unclamped, in the range
of what was read; of the worst reading at all where none is proven; 300 dB at most. A certificate is false below
{exact:.0f} dB of what it says that it is.

| client | samples | equations, at most | unknowns | read | proven | false | lowest, dB | seconds |
|---|---|---|---|---|---|---|---|---|
"""

MISSES_HEAD = """
## Near-misses

Small networks of 1, 2 or 4 samples, float32 and float64, gradients and differences of weights, each with a change that
a proof has to notice or to survive: of a relative size from 1e-6 to 1e-2 where it has one. Many leave what is read as
it was: a certificate is then right. **{false} of {proven} certificates are false**, in {tries} tries.

| change | tries | tries with certificates | certificates | of layers | false | lowest, dB |
|---|---|---|---|---|---|---|
"""


def page(rows: "Sequence[Row]", tries: Sequence[Try]) -> str:
    """Return the page in Markdown."""
    seconds = sum(one.seconds for one in rows) + sum(one.seconds for one in tries)
    text = HEAD.format(kinds=len(rows), tries=len(tries), seconds=seconds, exact=EXACT)
    for one in rows:
        cells = (one.kind, one.samples, f"{one.equations:,}", f"{one.unknowns:,}", one.read or "nothing", one.proven,
                 one.false, one.lowest, f"{one.seconds:.1f}")  # fmt: skip
        text += "| " + " | ".join(str(cell) for cell in cells) + " |\n"
    text += MISSES_HEAD.format(
        false=sum(one.false for one in tries), proven=sum(one.proven for one in tries), tries=len(tries)
    )
    for name in dict.fromkeys(one.miss for one in tries):
        own = [one for one in tries if one.miss == name]
        worst = min(one.worst for one in own)
        cells = (name, len(own), sum(one.proven > 0 for one in own), sum(one.proven for one in own),
                 sum(one.layers for one in own), sum(one.false for one in own),
                 f"{worst:.0f}" if worst < float("inf") else "")  # fmt: skip
        text += "| " + " | ".join(str(cell) for cell in cells) + " |\n"
    return text
