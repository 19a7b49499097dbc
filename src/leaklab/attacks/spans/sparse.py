"""Sparse reading: more inputs than a thin gradient has rows, such as those of LoRA.

The rows of a thin gradient are K combinations of N > K inputs. A generic point of the span of N candidates lies in no
other such span while N < d, so the inputs are those few candidates that explain all rows together. They are found one
by one: the next is the candidate with the largest share, away from those that are chosen, in what is not explained yet
(rank-aware order-recursive matching pursuit: M. E. Davies and Y. C. Eldar, "Rank awareness in joint sparse recovery",
2012). Who was chosen wrongly has no part in the rows once all are explained, and is dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.spans.pool import Pool
from leaklab.attacks.spans.prefixes import Prefixes
from leaklab.attacks.spans.span import (
    DEPENDENT,
    PROVING_GAP,
    SLACK,
    SMALLEST_GAP,
    TIGHTEST,
    Accepted,
    Candidates,
    Span,
    relative,
)
from leaklab.models.text.first_block import FirstBlock
from leaklab.records import tensor_algebra

FEW = 2
"""Few inputs are those of which this times as many go into the width."""
SOME = 2.0
"""A candidate that was chosen for what rounding left has no larger part than this in the columns."""
CAPS = (1e3, 300.0, 100.0, 40.0)
"""At most this many roundings count of a combination of the columns, where inputs moved: it blurs what is large."""


def in_roundings(columns: Tensor, rounding: float, least: Tensor | None = None) -> Tensor:
    """Return thin gradients' columns [d, M] in units of their rounding; see ``span.relative``.

    What is left of them, once all inputs behind them are taken off, is of the order of one.
    """
    return relative(columns, least) / max(rounding, TIGHTEST / SLACK)


@dataclass(frozen=True, eq=False)
class Pursuit:
    """What is chosen so far, and what it leaves of the measured columns.

    Attributes:
        measured: columns in units of their rounding, [d, M].
        chosen: orthonormal basis of the chosen inputs, [d, n].
        left: orthonormal basis of what the columns have besides and rounding does not hide, [d, k].
        rest: length of the largest combination of the columns that is not explained, in roundings.
    """

    measured: Tensor
    chosen: Tensor
    left: Tensor
    rest: float

    @classmethod
    def start(cls, measured: Tensor) -> "Pursuit":
        """Return a pursuit that has nothing yet."""
        return cls._of(measured, measured[:, :0])

    @classmethod
    def _of(cls, measured: Tensor, chosen: Tensor) -> "Pursuit":
        left, values, _ = tensor_algebra.svd(measured - chosen @ (chosen.T @ measured))
        return cls(measured, chosen, left[:, values > SLACK], float(values[0]))

    @property
    def explained(self) -> bool:
        """Whether nothing is left but rounding."""
        return self.rest <= SLACK

    def with_input(self, vector: Tensor) -> "Pursuit":
        """Return the pursuit with one more input [d]."""
        own = vector / vector.norm()
        for _ in range(2):  # the second time takes off what rounding left
            own = own - self.chosen @ (self.chosen.T @ own)
        return self._of(self.measured, torch.cat([self.chosen, (own / own.norm())[:, None]], 1))


def weighed(measured: Tensor, inputs: Tensor) -> tuple[Tensor, float]:
    """Return which inputs [N, d] have a part in the measured columns [d, M], and the gap to those that have none.

    The part of an input is what would be left of the columns without it, over what is left with all inputs and is at
    least their rounding.

    Returns:
        [N] bool, and the least part of those, over the largest of the others, or over the rounding.
    """
    orthonormal, mixed = torch.linalg.qr((inputs / inputs.norm(dim=1, keepdim=True)).T)
    inverse = tensor_algebra.pseudo_inverse(mixed)
    rest = float(tensor_algebra.spectral_norm(measured - orthonormal @ (orthonormal.T @ measured)))
    parts = (inverse @ (orthonormal.T @ measured)).norm(dim=1) / inverse.norm(dim=1) / max(rest, 1.0)
    kept = parts > SOME
    least = float(parts[kept].min()) if bool(kept.any()) else 1.0
    most = max(float(parts[~kept].max()), 1.0) if not bool(kept.all()) else 1.0
    return kept, least / most


def sparse_tokens(candidates: Candidates, measured: Tensor) -> Accepted | None:
    """Return tokens and places whose inputs explain what is measured, and all others in their span; None if none do.

    Args:
        candidates: all tokens at all places.
        measured: rows of the first block's thin gradients, see ``in_roundings``.
    """
    pursuit, tokens, places = Pursuit.start(measured), list[int](), list[int]()
    most = candidates.block.width - pursuit.left.shape[1]
    sizes, squares = candidates.tables(slice(None))
    away = squares.clone()
    while not pursuit.explained:
        if pursuit.chosen.shape[1] >= most or pursuit.left.shape[1] == 0:
            return None
        shares = candidates.squares_of(*candidates.parts(pursuit.left), sizes) / away.clamp(min=1e-300)
        shares[away <= DEPENDENT * squares] = -1
        token, place = divmod(int(shares.argmax()), shares.shape[1])
        tokens.append(token)
        places.append(place)
        pursuit = pursuit.with_input(candidates.block.inputs(torch.tensor([token]), torch.tensor([place]))[0])
        away -= candidates.squares_of(*candidates.parts(pursuit.chosen[:, -1:]), sizes)
    inputs = candidates.block.inputs(torch.tensor(tokens), torch.tensor(places))
    kept, _ = weighed(measured, inputs)
    return candidates.accepted(_exact_span(inputs[kept]))


def _exact_span(inputs: Tensor) -> Span:
    """Return the span of inputs [N, d] that are known exactly; all of them count."""
    left, _, _ = tensor_algebra.svd(inputs.T / inputs.norm(dim=1), full=True)
    return Span(left[:, : len(inputs)], left[:, len(inputs) :], gap=1e15, rounding=1e-15, behind=1e-15)


@dataclass(frozen=True, eq=False)
class SparsePrefixes:
    """What explains the second block's thin gradients.

    Attributes:
        prefixes: a tree.
        explained: whether they explain all that was measured, each with its shorter ones.
        gap: least part of theirs over the largest of those that were dropped, or over the rounding.
        share: of all that were chosen, how many these are.
        width: d.
    """

    prefixes: Prefixes
    explained: bool
    gap: float
    share: float
    width: int

    @property
    def likely(self) -> tuple[bool, float]:
        """By what the likeliest of some is chosen, where none is proven: few wrong choices, and parts of a size."""
        return self.explained or self.gap >= SMALLEST_GAP, self.share * self.gap

    @property
    def proven(self) -> bool:
        """Whether the gap says that these prefixes, and no others, are behind the update.

        Another prefix in the place of one of them would have to do its part to a twentieth. As many prefixes as half
        the width are not few: little is left in which they could fail.
        """
        return self.explained and self.gap > PROVING_GAP and FEW * len(self.prefixes) <= self.width


def sparse_prefixes(block: FirstBlock, accepted: Accepted, measured: Tensor) -> SparsePrefixes:
    """Return the prefixes that explain the second block's thin gradients, chosen among extensions of the chosen.

    Args:
        block: the first block.
        accepted: which tokens may stand where.
        measured: rows of the second block's thin gradients, see ``in_roundings``.
    """
    best = SparsePrefixes(Prefixes.none(), explained=False, gap=1.0, share=0.0, width=block.width)
    for shown in _shown(measured):
        found = _prefixes(block, accepted, shown)
        if found.proven:
            return found
        best = max(best, found, key=lambda one: one.likely)
    return best


def _shown(measured: Tensor) -> Iterator[Tensor]:
    """Yield what columns [d, M] show, first as they are, then for inputs that moved from step to step.

    Moved inputs blur each combination of the columns by its size, and add combinations of their own behind the largest
    gap where there are more columns than inputs.
    """
    yield measured
    left, values, _ = tensor_algebra.svd(measured)
    behind = torch.cat([values[1:], values.new_ones(1)]).clamp(min=1.0)
    last = int((values / behind).argmax())
    for floor in dict.fromkeys((1.0, float(behind[last]))):
        if float(values[0]) > CAPS[-1] * floor:
            yield from (left * (values / floor).clamp(max=most) for most in CAPS)


def _prefixes(block: FirstBlock, accepted: Accepted, measured: Tensor) -> SparsePrefixes:
    pool = Pool(block, accepted, "attention")
    inputs = pool.extend(-1)
    pursuit = Pursuit.start(measured)
    most = block.width - pursuit.left.shape[1] if len(inputs) else 0
    away = inputs.clone()  # what they have besides the chosen ones
    while not pursuit.explained and len(pool.chosen) < most:
        lengths = away.square().sum(1)
        shares = (inputs @ pursuit.left).square().sum(1) / lengths.clamp(min=1e-300)
        shares[lengths <= DEPENDENT * inputs.square().sum(1)] = -1
        number = int(shares.argmax())
        if shares[number] <= 0:
            break
        pursuit = pursuit.with_input(inputs[number])
        away -= (away @ pursuit.chosen[:, -1:]) @ pursuit.chosen[:, -1:].T
        more = pool.extend(number)
        inputs = torch.cat([inputs, more])
        away = torch.cat([away, more - (more @ pursuit.chosen) @ pursuit.chosen.T])
    if not pool.chosen:
        return SparsePrefixes(Prefixes.none(), explained=False, gap=1.0, share=0.0, width=block.width)
    kept, gap = weighed(measured, inputs[pool.chosen])
    numbers = [number for number, keep in zip(pool.chosen, kept.tolist(), strict=True) if keep]
    tree = pool.tree(numbers)
    whole, share = len(tree) == len(numbers), len(tree) / len(pool.chosen)
    return SparsePrefixes(tree, pursuit.explained and whole, gap, share, block.width)
