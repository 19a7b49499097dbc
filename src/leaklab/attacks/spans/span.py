"""The span of a layer's inputs, read from the gradient of its weight, and every token and place tested against it.

The gradient of a matrix is H' D with the inputs H [N, d] and what came back D: its columns lie in the span of the N
inputs, whatever the loss, the labels or a factor on the update. While N < d almost no other vector does. The inputs of
the first attention are known functions of a token and a place, so that all of them are tested in closed form.

Source of the idea: I. Petrov et al., "DAGER: Exact gradient inversion for large language models", 2024. There the
tolerance of a rank is set by hand for each batch size; here the largest gap between singular values sets both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.models.text.first_block import FirstBlock
from leaklab.records import tensor_algebra
from leaklab.records.errors import UserError

SMALLEST_GAP = 5.0
"""Between singular values: a rank with a smaller one behind it is none."""
PROVING_GAP = 20.0
"""With a smaller gap a count that equals the rank proves nothing."""
SLACK = 10.0
"""The true inputs lie within 1 / gap of the span, this often: the tolerance is as many times that."""
TIGHTEST = 1e-9
"""Smallest tolerance: the equations' own rounding in float64."""
SCREENING = 24
"""Directions of the first, cheap test: an orthonormal part of all, so that no input of the span fails it."""
BEHIND = 1e3
"""In few dimensions a large ratio may stand between two values that count; behind a rank is less than this rounding."""
DEPENDENT = 1e-8
"""Squared length, over the whole, of what a candidate has besides the chosen ones, below which it has nothing."""
PLACES = 64
"""How many places are tested together."""
MOST, MOST_TOKENS = 64, 4
"""More candidates than this times the width, or tokens where no place shows, are no reading: words fit anywhere."""
BUILT = 8192
"""How many inputs are built at once."""
ROUNDING = {torch.float64: 1e-15, torch.float32: 1e-7, torch.float16: 1e-4, torch.bfloat16: 1e-3}
"""Singular values below this times the largest are not told apart."""


class NotToldError(UserError):
    """What an update does not say, however good it is: not that it was captured wrongly."""


@dataclass(frozen=True, eq=False)
class Span:
    """A linear space of inputs.

    Attributes:
        basis: orthonormal, [d, rank].
        normal: orthonormal, of what is orthogonal to it, [d, d - rank].
        gap: ratio of the last singular value that counts to the first one that does not; from 1.
        rounding: of the type in which the gradient was sent, see ``ROUNDING``.
        behind: the first singular value that does not count, over the largest.
        seen: a matrix [r, d] through which alone the inputs are seen; the space is then one of R^r.
    """

    basis: Tensor
    normal: Tensor
    gap: float
    rounding: float
    behind: float
    seen: Tensor | None = None

    @property
    def rank(self) -> int:
        """Return the dimensions of the space."""
        return self.basis.shape[1]

    @property
    def tolerance(self) -> float:
        """Return how far from the space, over its own length, an input of it may be."""
        return max(SLACK / self.gap, TIGHTEST)

    @property
    def told(self) -> bool:
        """Whether there is a rank, and room beside it; of few dimensions, also whether rounding alone is behind it."""
        if self.seen is None:
            return self.gap >= SMALLEST_GAP and self.normal.shape[1] >= 2
        return self.gap >= SMALLEST_GAP and self.behind <= BEHIND * self.rounding

    def distances(self, vectors: Tensor) -> Tensor:
        """Return the distance of vectors [N, d] from the space over their length: [N] in [0, 1]."""
        vectors = vectors if self.seen is None else vectors @ self.seen.T
        off: Tensor = torch.linalg.vector_norm(vectors @ self.normal, dim=1)
        lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1)
        return off / lengths

    def of_rank(self, rank: int) -> "Span":
        """Return the space of another number of leading directions, at the same gap: a mistaken one, or a ranking's."""
        both = torch.cat([self.basis, self.normal], 1)
        return replace(self, basis=both[:, :rank], normal=both[:, rank:])


def span_of(columns: Tensor, rounding: float) -> Span:
    """Return the span of ``columns`` [d, M], its rank by the largest ratio of neighbouring singular values.

    Every column counts by its direction alone, since the rounding of a sum is relative to it.

    Args:
        columns: of any lengths; those of zero length do not count.
        rounding: of the type in which they were sent, see ``ROUNDING``.

    Raises:
        UserError: they are not finite.
        NotToldError: they are all zero.
    """
    columns = relative(columns)
    if columns.shape[1] > columns.shape[0]:
        columns = torch.linalg.qr(columns.T, mode="r").R.T
    left, values, _ = tensor_algebra.svd(columns, full=True)
    values = values.clamp(min=rounding * float(values[0]))
    if len(values) < len(columns):
        values = torch.cat([values, values.new_tensor([rounding * float(values[0])])])
    ratios = values[:-1] / values[1:]
    rank = int(ratios.argmax()) + 1
    behind = float(values[rank] / values[0])
    return Span(left[:, :rank], left[:, rank:], float(ratios.max()), rounding, behind)


def relative(columns: Tensor, least: Tensor | None = None) -> Tensor:
    """Return ``columns`` [d, M] over what their rounding is relative to, float64; without those of zero length.

    Args:
        columns: sums, whose rounding is relative to their own length, or differences.
        least: [M], lengths of what was subtracted, to which the rounding of a difference is relative.

    Raises:
        UserError: they are not finite.
        NotToldError: they are all zero.
    """
    if not bool(columns.isfinite().all()):
        raise UserError("a gradient is not finite (an overflow of float16?): capture the update again")
    columns = columns.double()
    lengths = columns.norm(dim=0)
    if not bool((lengths > 0).any()):
        raise NotToldError("a gradient is zero: it says nothing of its inputs")
    over = lengths if least is None else torch.maximum(lengths, least.double())
    return columns[:, lengths > 0] / over[lengths > 0]


def refuse(span: Span, inputs: str) -> None:
    """Refuse a space that tells nothing.

    Raises:
        NotToldError: there is no gap, or no room beside the space.
    """
    if not span.told:
        raise NotToldError(
            f"the {inputs} reach the width {len(span.basis)} of the space that shows them, or noise hides "
            f"their number (largest gap {span.gap:.1f}): they cannot be told from other tokens"
        )


@dataclass(frozen=True, eq=False)
class Accepted:
    """Tokens that may stand at a place.

    Attributes:
        tokens: int64 [N].
        places: int64 [N]; all -1 where places do not show.
        distances: [N], from the span.
    """

    tokens: Tensor
    places: Tensor
    distances: Tensor

    def at(self, place: int) -> Tensor:
        """Return the tokens that may stand at a place, [n]."""
        return self.tokens[(self.places == place) | (self.places < 0)]

    def of(self, keep: Tensor) -> "Accepted":
        """Return those of a mask or of indices [N]."""
        return Accepted(self.tokens[keep], self.places[keep], self.distances[keep])


class Candidates:
    """All tokens at all places as inputs of the first attention, without building any: sums of two tables.

    An input is g * (w_v + b_p, centred) / s(v, p) + beta; so are its length and its products with any direction sums of
    a part of the token, a part of the place and one product of both.
    """

    def __init__(self, block: FirstBlock) -> None:
        self.block, norm = block, block.first
        self._words = norm.centre(block.words)
        self._places = norm.centre(block.places) if len(block.places) else block.words.new_zeros(1, block.width)
        self.placed = len(block.places) > 0
        self._square = self._words.square().sum(1)

    def __len__(self) -> int:
        return len(self._places)

    def tables(self, places: slice) -> tuple[Tensor, Tensor]:
        """Return the divisors s and the squared lengths of the inputs of some places, each [V, L]."""
        norm, rows = self.block.first, self._places[places]
        width = self.block.width
        square = self._square[:, None] + 2 * self._words @ rows.T + rows.square().sum(1)
        sizes = (square / width + norm.epsilon).sqrt()
        words, rows = norm.weight * self._words, norm.weight * rows
        scaled = words.square().sum(1)[:, None] + 2 * words @ rows.T + rows.square().sum(1)
        towards = (words @ norm.bias)[:, None] + rows @ norm.bias
        return sizes, scaled / sizes.square() + 2 * towards / sizes + norm.bias.square().sum()

    def parts(self, directions: Tensor, places: slice = slice(None)) -> tuple[Tensor, Tensor, Tensor]:
        """Return what tokens [V, k], places [L, k] and the shift [k] have of ``directions`` [d, k]."""
        norm = self.block.first
        weighted = norm.weight[:, None] * directions
        return self._words @ weighted, self._places[places] @ weighted, norm.bias @ directions

    @staticmethod
    def squares_of(words: Tensor, rows: Tensor, shift: Tensor, sizes: Tensor) -> Tensor:
        """Return the squared length of the products of all inputs with directions, from their ``parts``: [V, L]."""
        both = words.square().sum(1)[:, None] + 2 * words @ rows.T + rows.square().sum(1)
        scaled = both / sizes.square()
        if bool(shift.any()):
            scaled += 2 * ((words @ shift)[:, None] + rows @ shift) / sizes + shift.square().sum()
        return scaled.clamp(min=0)

    def shares(self, basis: Tensor, length: int) -> Tensor:
        """Return which part of every token's squared input lies in directions [d, N], [V, L], or [V, 1] of no place."""
        sizes, squares = self.tables(slice(0, length))
        return self.squares_of(*self.parts(basis, slice(0, length)), sizes) / squares

    def chunks(self) -> Iterator[slice]:
        """Yield all places, some at a time."""
        for first in range(0, len(self), PLACES):
            yield slice(first, min(first + PLACES, len(self)))

    def accepted(self, span: Span, tolerance: float | None = None) -> Accepted:
        """Return all tokens and places whose input lies in a span; none behind the first place without any.

        Raises:
            NotToldError: there are so many that they tell nothing.
        """
        limit = span.tolerance if tolerance is None else tolerance
        # sums of large squares leave rounding that the exact test does without
        screen = max(limit, 1e-5) ** 2
        found, count = list[Accepted](), 0
        most = (MOST if self.placed else MOST_TOKENS) * self.block.width
        for places in self.chunks():
            sizes, squares = self.tables(places)
            directions = span.normal[:, -SCREENING:]
            if span.seen is not None:
                directions = span.seen.T @ directions
                squares = self.squares_of(*self.parts(span.seen.T, places), sizes)
            near = self.squares_of(*self.parts(directions, places), sizes) <= screen * squares
            if count + int(near.sum()) > most:
                raise NotToldError(
                    f"more than {most} tokens and places fit the update within {limit:.1g}, so "
                    "that none is told from others: rounding or noise is too large"
                )
            tokens, rows = near.nonzero(as_tuple=True)
            distances = self.distances(span, tokens, rows + places.start)
            kept = distances <= limit
            tokens, rows, distances = tokens[kept], rows[kept], distances[kept]
            filled = _filled(rows, sizes.shape[1])
            kept = rows < filled
            count += int(kept.sum())
            found.append(Accepted(tokens[kept], rows[kept] + places.start, distances[kept]))
            if filled < sizes.shape[1]:
                break
        joined = (torch.cat([getattr(one, name) for one in found]) for name in ("tokens", "places", "distances"))
        tokens, rows, distances = joined
        return Accepted(tokens, rows if self.placed else torch.full_like(rows, -1), distances)

    def distances(self, span: Span, tokens: Tensor, places: Tensor) -> Tensor:
        """Return the distances of inputs from a span, [N]."""
        parts = zip(torch.split(tokens, BUILT), torch.split(places, BUILT), strict=True)
        return torch.cat([span.distances(self.block.inputs(*part)) for part in parts])


def _filled(places: Tensor, count: int) -> int:
    """Return how many of the first ``count`` places are there without a hole."""
    there = torch.zeros(count, dtype=torch.bool)
    there[places] = True
    return count if bool(there.all()) else int(there.to(torch.int64).argmin())
