"""Sentences of a decoder, word by word: the input of the first perceptron depends on all tokens up to its place.

A token that may stand at a place is hung behind every prefix that was found so far, the first attention is computed for
it, and it stays if the outcome lies in the span of the first perceptron's inputs. That span's rank is the number of
distinct prefixes, which tells when the reading is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.spans.span import PROVING_GAP, SCREENING, TIGHTEST, Accepted, Span
from leaklab.models.text.first_block import FirstBlock
from leaklab.records import tensor_algebra

FINER = 0.3
"""From one tolerance to the next one; the loosest that leaves as many prefixes as the rank says is taken."""
ALLOWED, BESIDES = 4, 200
"""A tolerance that leaves more than so many times the rank and so many more is too loose."""
TOGETHER = 2**22
"""Numbers of a table of outcomes [pairs, d] at once."""

Test = Callable[[Tensor, Tensor], Tensor]
"""From what is carried past the attention [N, d] and its outcomes [N, H, d / H] to a distance [N], inf if too far."""


@dataclass(frozen=True, eq=False)
class Prefixes:
    """A tree of prefixes, parents before children.

    Attributes:
        tokens: [N], the last one of each prefix.
        parents: [N], the number of the prefix without it; -1 for the first token.
        places: [N], of the last token.
        distances: [N].
    """

    tokens: Tensor
    parents: Tensor
    places: Tensor
    distances: Tensor

    @classmethod
    def none(cls) -> "Prefixes":
        """Return a tree without any."""
        no = torch.zeros(0, dtype=torch.int64)
        return cls(no, no, no, torch.zeros(0, dtype=torch.float64))

    def __len__(self) -> int:
        return len(self.tokens)

    def within(self, limit: float) -> "Prefixes":
        """Return those that are not farther, nor any of the prefixes that they are made of."""
        kept = self.distances <= limit
        for number, parent in enumerate(self.parents.tolist()):
            if parent >= 0 and not kept[parent]:
                kept[number] = False
        return self.of(kept)

    def told_apart(self, placed: bool) -> Tensor:
        """Return which differ from all others, [N] bool: without places a token sees nothing in its own repetition."""
        apart = torch.ones(len(self), dtype=torch.bool)
        alone = list[bool]()
        for number, (token, parent) in enumerate(zip(self.tokens.tolist(), self.parents.tolist(), strict=True)):
            alone.append(parent < 0 or (alone[parent] and token == int(self.tokens[parent])))
            apart[number] = placed or parent < 0 or not alone[number]
        return apart

    def of(self, kept: Tensor) -> "Prefixes":
        """Return those of a mask [N] that holds the shorter ones of each."""
        numbers = torch.cumsum(kept, 0) - 1
        parents = torch.where(self.parents >= 0, numbers[self.parents.clamp(min=0)], -1)
        return Prefixes(self.tokens[kept], parents[kept], self.places[kept], self.distances[kept])

    def leaves(self) -> list[int]:
        """Return the numbers of those that none goes on from."""
        inner = set(self.parents.tolist())
        return [number for number in range(len(self)) if number not in inner]

    def sentence(self, number: int) -> tuple[int, ...]:
        """Return the tokens of a prefix."""
        return tuple(self.tokens[self.path(number)].tolist())

    def path(self, number: int) -> list[int]:
        """Return the numbers of the prefixes that a prefix is made of, itself the last."""
        path = [number]
        while (parent := int(self.parents[path[-1]])) >= 0:
            path.append(parent)
        return path[::-1]


@dataclass(frozen=True, eq=False)
class ReadPrefixes:
    """What was read of a decoder's update.

    Attributes:
        prefixes: the tree.
        count: how many of them are told apart.
        rank: of the perceptron's inputs.
        gap: behind that rank.
        proven: the certificate: as many distinct prefixes as the rank, and a gap of more than ``PROVING_GAP``.
    """

    prefixes: Prefixes
    count: int
    rank: int
    gap: float

    @property
    def proven(self) -> bool:
        """Whether the prefixes are those of the update, all and no others."""
        return self.count == self.rank and self.gap > PROVING_GAP


def read_prefixes(block: FirstBlock, accepted: Accepted, span: Span, later: bool = False) -> ReadPrefixes:
    """Return the prefixes whose perceptron inputs lie in a span.

    Args:
        block: the first block.
        accepted: which tokens may stand where.
        span: of the first perceptron's inputs.
        later: whether it is one of the second block's inputs instead.
    """
    test_of = onward_test if later else perceptron_test
    best, count, placed = Prefixes.none(), 0, len(block.places) > 0
    most = ALLOWED * span.rank + BESIDES
    grown, limit = None, span.tolerance / FINER
    while limit * FINER >= span.rounding:
        limit *= FINER
        if grown is None:
            grown = grow(block, accepted, test_of(block, span, limit), limit, most)
        if grown is None:
            continue
        tree = grown.within(limit)
        found = int(tree.told_apart(placed).sum())
        if abs(found - span.rank) < abs(count - span.rank):
            best, count = tree, found
        if count == span.rank:
            break
    return ReadPrefixes(_needed(best, best.told_apart(placed)), count, span.rank, span.gap)


def _needed(tree: Prefixes, apart: Tensor) -> Prefixes:
    """Return the tree without repetitions that nothing else goes on from."""
    kept = apart.clone()
    for number in range(len(tree) - 1, -1, -1):
        if kept[number] and tree.parents[number] >= 0:
            kept[tree.parents[number]] = True
    return tree.of(kept)


def perceptron_test(block: FirstBlock, span: Span, limit: float) -> Test:
    """Return the test of the first perceptron's inputs, with a cheap one in front that no input within ``limit`` fails.

    The cheap one needs no divisor: its directions are orthogonal to the space and to the normalisation's shift.
    """
    norm = block.second
    shift = span.normal.T @ norm.bias
    rows = span.normal
    if bool(shift.norm() > 0):
        towards = shift / shift.norm()
        turned = torch.linalg.qr(torch.cat([towards[:, None], torch.eye(len(towards)).to(towards)], 1)).Q
        rows = rows @ turned[:, 1:]
    # the directions through normalisation and output matrix, so that an outcome [d] costs its product with few
    directions = norm.weight[:, None] * rows[:, -SCREENING:]
    directions = directions - directions.mean(0) if norm.centred else directions
    zero = block.output(directions.new_zeros(1, block.width))
    through = block.output(torch.eye(block.width).to(directions)) - zero
    largest = tensor_algebra.spectral_norm(through)
    ahead = through @ directions
    # |z| <= (|g| + |b| / sqrt(d)) |x| / s + ...: a bound of the length in units of 1 / s
    steep = norm.weight.abs().max() + norm.bias.norm() / block.width**0.5
    least = norm.epsilon**0.5 * norm.bias.norm()

    def test(embedded: Tensor, outcome: Tensor) -> Tensor:
        flat, start = outcome.flatten(1), embedded + zero
        bound = steep * (start.norm(dim=1) + largest * flat.norm(dim=1)) + least
        near = (start @ directions + flat @ ahead).norm(dim=1) <= max(limit, TIGHTEST) * bound
        distances = torch.full((len(flat),), torch.inf, dtype=flat.dtype)
        distances[near] = span.distances(norm(block.between(embedded[near], outcome[near])))
        return distances

    return test


def onward_test(block: FirstBlock, span: Span, limit: float) -> Test:
    """Return the test of the second block's inputs; farther ones than ``limit`` are told as they are."""

    def test(embedded: Tensor, outcome: Tensor) -> Tensor:
        return span.distances(block.onward(block.between(embedded, outcome)))

    return test


def grow(block: FirstBlock, accepted: Accepted, test: Test, limit: float, most: int) -> Prefixes | None:
    """Return all prefixes within ``limit`` whose shorter ones are too; None if more than ``most`` are told apart."""
    tree = Prefixes.none()
    keys = values = torch.zeros(0, dtype=torch.float64)
    ends, paths = torch.tensor([-1]), torch.zeros(1, 0, dtype=torch.int64)
    for place in range(block.positions):
        tokens = accepted.at(place)
        if len(tokens) == 0:
            break
        places = torch.full_like(tokens, place)
        query, key, value = block.attention(tokens, places)
        embedded = block.embedded(tokens, places)
        distances = extended(embedded, (query, key, value), (keys, values), paths, test)
        before, who = (distances <= limit).nonzero(as_tuple=True)
        if len(before) == 0:
            break
        first = len(tree)
        if len(before) > most:
            return None
        tree = joined(tree, Prefixes(tokens[who], ends[before], places[who], distances[before, who]))
        if int(tree.told_apart(len(block.places) > 0).sum()) > most:
            return None
        keys, values = (torch.cat([old, new[who]]) for old, new in ((keys, key), (values, value)))
        ends = torch.arange(first, len(tree))
        paths = torch.cat([paths[before], ends[:, None]], 1)
    return tree


def joined(tree: Prefixes, more: Prefixes) -> Prefixes:
    """Return both lists of prefixes, one behind the other."""
    return Prefixes(
        torch.cat([tree.tokens, more.tokens]),
        torch.cat([tree.parents, more.parents]),
        torch.cat([tree.places, more.places]),
        torch.cat([tree.distances, more.distances]),
    )


def extended(
    embedded: Tensor,
    own: tuple[Tensor, Tensor, Tensor],
    cache: tuple[Tensor, Tensor],
    paths: Tensor,
    test: Test,
) -> Tensor:
    """Return the distance of every token behind every prefix, [n, c].

    Args:
        embedded: of the c tokens at their place, [c, d].
        own: their queries, keys and values, [c, H, d / H].
        cache: keys and values of all tokens of prefixes, [N, H, d / H].
        paths: places in the cache of the tokens of n prefixes, [n, p].
        test: what is asked of the attention's outcomes.
    """
    count, width = embedded.shape
    rows = []
    for some in torch.split(paths, max(1, TOGETHER // (count * width))):
        distances = test(embedded.repeat(len(some), 1), outcomes(own, cache, some).flatten(0, 1))
        rows.append(distances.reshape(len(some), count))
    return torch.cat(rows)


def outcomes(own: tuple[Tensor, Tensor, Tensor], cache: tuple[Tensor, Tensor], paths: Tensor) -> Tensor:
    """Return what attention brings to every token behind every prefix, [n, c, H, d / H]; see ``extended``."""
    query, key, value = own
    if paths.shape[1] == 0:
        return value.expand(len(paths), *value.shape)
    seen, given = cache[0][paths], cache[1][paths]
    scores = torch.einsum("chk,nphk->nhcp", query, seen)
    alone = (query * key).sum(2).T.expand(len(paths), -1, -1)
    weights = F.softmax(torch.cat([scores, alone[..., None]], 3), 3)
    before = torch.einsum("nhcp,nphk->nchk", weights[..., :-1], given)
    return before + weights[..., -1].transpose(1, 2)[..., None] * value
