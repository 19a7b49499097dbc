"""Sparse reading: more inputs than a thin gradient has rows, such as those of LoRA.

The rows of a thin gradient are K combinations of N > K inputs. A generic point of the span of N candidates lies in no
other such span while N < d, so the inputs are those few candidates that explain all rows together. They are found one
by one: the next is the candidate with the largest share, away from those that are chosen, in what is not explained yet
(rank-aware order-recursive matching pursuit: M. E. Davies and Y. C. Eldar, "Rank awareness in joint sparse recovery",
2012). Who was chosen wrongly gets no weight when all rows are explained, and is dropped at the largest gap.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.least_squares import least_squares
from leaklab.attacks.spans.prefixes import Prefixes, outcomes
from leaklab.attacks.spans.span import PROVING_GAP, Accepted, Candidates, Span
from leaklab.models.text.first_block import FirstBlock

FEW = 2
"""Few inputs are those of which this times as many go into the width."""
DEPENDENT = 1e-8
"""Squared length, over the whole, of what a candidate has besides the chosen ones, below which it has nothing."""


@dataclass(frozen=True, eq=False)
class Pursuit:
    """What is chosen so far, and what it leaves of the measured space.

    Attributes:
        span: the measured space.
        chosen: orthonormal basis of the chosen inputs, [d, n].
        left: orthonormal basis of what the measured space has besides, [d, k].
        rest: largest part of a measured direction that is not explained, in [0, 1].
    """

    span: Span
    chosen: Tensor
    left: Tensor
    rest: float

    @classmethod
    def start(cls, span: Span) -> "Pursuit":
        """Return a pursuit that has nothing yet."""
        return cls(span, span.basis[:, :0], span.basis, 1.0)

    @property
    def explained(self) -> bool:
        """Whether nothing is left but rounding."""
        return self.rest <= self.span.tolerance

    def with_input(self, vector: Tensor) -> "Pursuit":
        """Return the pursuit with one more input [d]."""
        own = vector / vector.norm()
        for _ in range(2):  # the second time takes off what rounding left
            own = own - self.chosen @ (self.chosen.T @ own)
        chosen = torch.cat([self.chosen, (own / own.norm())[:, None]], 1)
        besides = self.span.basis - chosen @ (chosen.T @ self.span.basis)
        left, values, _ = torch.linalg.svd(besides, full_matrices=False)
        return Pursuit(self.span, chosen, left[:, values > self.span.tolerance], float(values[0]))


def weighed(span: Span, inputs: Tensor) -> tuple[Tensor, float]:
    """Return which inputs [N, d] have a weight in a measured space, [N] bool, and the gap to those that have none."""
    weights = least_squares(inputs.T, span.basis).norm(dim=1)
    order = weights.argsort(descending=True)
    values = weights[order].clamp(min=span.rounding * float(weights.max()))
    values = torch.cat([values, values.new_tensor([span.rounding * float(weights.max())])])
    ratios = values[:-1] / values[1:]
    count = int(ratios.argmax()) + 1
    kept = torch.zeros(len(inputs), dtype=torch.bool)
    kept[order[:count]] = True
    return kept, float(ratios.max())


def sparse_tokens(candidates: Candidates, span: Span) -> Accepted | None:
    """Return tokens and places whose inputs explain a measured space, and all others in their span; None if none do.

    Args:
        candidates: all tokens at all places.
        span: of the rows of the first block's thin gradients.
    """
    pursuit, tokens, places = Pursuit.start(span), list[int](), list[int]()
    sizes, squares = candidates.tables(slice(None))
    away = squares.clone()
    while not pursuit.explained:
        if pursuit.chosen.shape[1] >= candidates.block.width - span.rank or pursuit.left.shape[1] == 0:
            return None
        shares = candidates.squares_of(*candidates.parts(pursuit.left), sizes) / away.clamp(min=1e-300)
        shares[away <= DEPENDENT * squares] = -1
        token, place = divmod(int(shares.argmax()), shares.shape[1])
        tokens.append(token)
        places.append(place)
        pursuit = pursuit.with_input(candidates.block.inputs(torch.tensor([token]), torch.tensor([place]))[0])
        away -= candidates.squares_of(*candidates.parts(pursuit.chosen[:, -1:]), sizes)
    inputs = candidates.block.inputs(torch.tensor(tokens), torch.tensor(places))
    kept, _ = weighed(span, inputs)
    return candidates.accepted(_exact_span(inputs[kept]))


def _exact_span(inputs: Tensor) -> Span:
    """Return the span of inputs [N, d] that are known exactly; all of them count."""
    left, _, _ = torch.linalg.svd(inputs.T / inputs.norm(dim=1), full_matrices=True)
    return Span(left[:, : len(inputs)], left[:, len(inputs) :], gap=1e15, rounding=1e-15, behind=1e-15)


@dataclass(frozen=True, eq=False)
class SparsePrefixes:
    """What explains the second block's thin gradients.

    Attributes:
        prefixes: a tree.
        explained: whether they explain all that was measured.
        gap: between the weights of those that were kept and of those that were dropped.
        span: what was measured.
        full: whether that has as many dimensions as the gradients have rows, so that there may be more prefixes.
    """

    prefixes: Prefixes
    explained: bool
    gap: float
    span: Span
    full: bool

    @property
    def proven(self) -> bool:
        """Whether the gap says that these prefixes, and no others, are behind the update.

        As many prefixes as half the width are not few: greedily chosen, they also explain what rounding has made of it.
        Where the rows would show more dimensions than there are, each prefix is one of them. A gap that says how many
        there are says as much as those of full matrices do: several steps leave a small one, and with it a wide
        tolerance, in which false prefixes explain a space as well.
        """
        counted = self.full or len(self.prefixes) == self.span.rank
        gap = min(self.gap, self.span.gap)
        return self.explained and counted and gap > PROVING_GAP and FEW * len(self.prefixes) <= len(self.span.basis)


def sparse_prefixes(block: FirstBlock, accepted: Accepted, span: Span, rows: int) -> SparsePrefixes:
    """Return the prefixes that explain the measured space of the second block, chosen among extensions of the chosen.

    Args:
        block: the first block.
        accepted: which tokens may stand where.
        span: of the rows of the second block's thin gradients.
        rows: how many these are.
    """
    pool = _Pool(block, accepted)
    pool.extend(-1)
    pursuit = Pursuit.start(span)
    most = block.width - span.rank if len(pool.inputs) else 0
    while not pursuit.explained and len(pool.chosen) < most and pursuit.left.shape[1]:
        shares = (pool.inputs @ pursuit.left).square().sum(1) / pool.away.square().sum(1).clamp(min=1e-300)
        shares[pool.away.square().sum(1) <= DEPENDENT * pool.inputs.square().sum(1)] = -1
        number = int(shares.argmax())
        if shares[number] <= 0:
            break
        pursuit = pursuit.with_input(pool.inputs[number])
        pool.away -= (pool.away @ pursuit.chosen[:, -1:]) @ pursuit.chosen[:, -1:].T
        pool.chosen.append(number)
        pool.extend(number, pursuit.chosen)
    if not pool.chosen:
        return SparsePrefixes(Prefixes.none(), explained=False, gap=1.0, span=span, full=False)
    kept, gap = weighed(span, pool.inputs[pool.chosen])
    numbers = [number for number, keep in zip(pool.chosen, kept.tolist(), strict=True) if keep]
    tree = pool.tree(numbers)
    return SparsePrefixes(tree, pursuit.explained and len(tree) == len(numbers), gap, span, span.rank == rows)


class _Pool:
    """Prefixes that may be chosen: those behind a chosen one, and all first tokens.

    Attributes:
        chosen: their numbers.
        inputs: of the second block, [N, d].
        away: what they have besides the chosen ones, [N, d].
    """

    def __init__(self, block: FirstBlock, accepted: Accepted) -> None:
        self.block, self.accepted, self.chosen = block, accepted, list[int]()
        no, none = torch.zeros(0, dtype=torch.int64), block.words[:0]
        self.tokens, self.parents, self.places = no, no, no
        self.keys = self.values = torch.zeros(0, dtype=torch.float64)
        self.inputs = self.away = none

    def extend(self, number: int, chosen: Tensor | None = None) -> None:
        """Add a prefix's extensions by one token; ``chosen`` [d, n] is taken off what they have besides."""
        path = self._path(number)
        tokens = self.accepted.at(len(path)) if len(path) < self.block.positions else self.tokens[:0]
        if len(tokens) == 0:
            return
        places = torch.full_like(tokens, len(path))
        query, key, value = self.block.attention(tokens, places)
        outcome = outcomes((query, key, value), (self.keys, self.values), torch.tensor([path], dtype=torch.int64))[0]
        inputs = self.block.onward(self.block.between(self.block.embedded(tokens, places), outcome))
        away = inputs if chosen is None else inputs - (inputs @ chosen) @ chosen.T
        self.tokens, self.places = torch.cat([self.tokens, tokens]), torch.cat([self.places, places])
        self.parents = torch.cat([self.parents, torch.full_like(tokens, number)])
        self.keys, self.values = torch.cat([self.keys, key]), torch.cat([self.values, value])
        self.inputs, self.away = torch.cat([self.inputs, inputs]), torch.cat([self.away, away])

    def tree(self, numbers: list[int]) -> Prefixes:
        """Return those of some prefixes whose shorter ones are among them too."""
        kept: dict[int, int] = {}
        for number in sorted(numbers, key=lambda one: int(self.places[one])):
            if (parent := int(self.parents[number])) < 0 or parent in kept:
                kept[number] = len(kept)
        rows = torch.tensor(list(kept), dtype=torch.int64)
        parents = torch.tensor([kept.get(parent, -1) for parent in self.parents[rows].tolist()], dtype=torch.int64)
        return Prefixes(self.tokens[rows], parents, self.places[rows], torch.zeros(len(rows), dtype=torch.float64))

    def _path(self, number: int) -> list[int]:
        path = []
        while number >= 0:
            path.append(number)
            number = int(self.parents[number])
        return path[::-1]
