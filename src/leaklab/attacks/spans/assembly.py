"""Sentences of an encoder: every token sees all others, so a sentence is assembled at once around one of its tokens.

Which tokens may stand where is known; m_j in {0, 1} says whether candidate j is in the sentence of the anchor i. The
anchor's input to the first perceptron is LN(x_i + o + sum_h sum_j m_j e_ij^h O v_j^h / Z^h), Z^h = sum_j m_j e_ij^h,
and lies in the span of that layer's inputs. Gauss-Newton solves for m, each step by non-negative least squares with one
token at each place; behind the anchor there may be none. Sentences that share an anchor can mix; then one of the mixed
tokens is held, and the rest is solved again. What comes out is put through the block once more, and stands only if the
inputs at all its places lie in the span.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from leaklab.attacks.spans.span import PROVING_GAP, Accepted, Span, span_of
from leaklab.models.text.first_block import FirstBlock, sentence_inputs

ROUNDS = 20
"""Steps of Gauss-Newton around one anchor at most; true anchors need 2 to 8."""
FALLING, PATIENCE = 0.9, 2
"""An anchor is left when its misfit has not fallen to this share of the one before, so many times."""
MIXED = 0.5
"""Sentences that mix leave a misfit below this power of the rounding; others cannot be parted."""
FIRM = 1e2
"""Weight of "one token at each place" over that of the equations."""
HELD = 3
"""How many tokens beside the anchor are held one after the other to part sentences that mix."""
ALIKE = 20.0
"""Sentences that are farther from the span than this times the nearest one are others' tokens put together."""
FAITHFUL = 1e2
"""Distance from the span, in roundings of the type that was sent, up to which an input is one of it for certain."""
EXACT = 1e-12
"""Rounding of inputs that are computed here, with which their rank is counted."""
CHOICES = 2
"""How many tokens of a place are tried for that."""


@dataclass(frozen=True, eq=False)
class ReadSentences:
    """What was read of an encoder's update.

    Attributes:
        sentences: each a tuple of tokens, start and end included.
        explained: rank of their inputs to the first perceptron.
        rank: of that layer's span.
        gap: behind it.
        faithful: whether all inputs lie in the span up to rounding.
    """

    sentences: tuple[tuple[int, ...], ...]
    explained: int
    rank: int
    gap: float
    faithful: bool

    @property
    def proven(self) -> bool:
        """Whether the ranks say that these sentences are all that is behind the update.

        A search that is not exhaustive needs more: the sentences' own update has to be the observed one.
        """
        return self.explained == self.rank and self.gap > PROVING_GAP and self.faithful


def read_sentences(block: FirstBlock, accepted: Accepted, span: Span, end: int | None = None) -> ReadSentences:
    """Return the sentences whose perceptron inputs lie in a span.

    Args:
        block: the first block of an encoder.
        accepted: which tokens may stand where.
        span: of the first perceptron's inputs.
        end: the token that ends every sentence and stands nowhere else; None if there is none.
    """
    assembly, found = Assembly(block, accepted, span), dict[tuple[int, ...], float]()
    kept, explained = list[tuple[int, ...]](), 0
    for new in _tries(assembly, end, kept):
        if all(one in found for one in new):
            continue
        found |= new
        kept[:], explained = _nearest(block, found, span.rank)
        if explained >= span.rank and max(found[one] for one in kept) <= assembly.faithful:
            break
    faithful = bool(kept) and max(found[one] for one in kept) <= assembly.faithful
    return ReadSentences(tuple(kept), explained, span.rank, span.gap, faithful)


def _tries(
    assembly: "Assembly", end: int | None, kept: list[tuple[int, ...]]
) -> Iterator[dict[tuple[int, ...], float]]:
    """Yield what is found around one candidate after the other, while ``kept`` holds what is believed of all of it.

    Ends come first, as there are few. Every token of the batch is accepted somewhere, so what no sentence holds yet is
    in one that is missing; those come next, from the front, where all sentences have a token.
    """
    tokens, places = assembly.accepted.tokens.tolist(), assembly.accepted.places.tolist()
    order = sorted(range(len(tokens)), key=lambda one: places[one])
    for anchor in order:
        if tokens[anchor] == end:
            yield assembly.around(anchor, last=True)
    left = [one for one in order if tokens[one] != end]
    while left:
        told = {token for one in kept for token in one}
        anchor = next((one for one in left if tokens[one] not in told), left[0])
        left.remove(anchor)
        if all(len(one) <= places[anchor] or one[places[anchor]] != tokens[anchor] for one in kept):
            yield assembly.around(anchor, last=False)


def _nearest(block: FirstBlock, found: dict[tuple[int, ...], float], rank: int) -> tuple[list[tuple[int, ...]], int]:
    """Return the sentences nearest to the span, until their inputs have its rank, and the rank that they have.

    Where attention is nearly even, sentences of mixed tokens lie in the span but for what is uneven, behind true ones.
    """
    kept, explained = list[tuple[int, ...]](), 0
    limit = ALIKE * min(found.values())
    for sentence in sorted(found, key=lambda one: found[one]):
        if explained >= rank or found[sentence] > limit:
            break
        kept.append(sentence)
        explained = _rank(block, kept)
    return kept, explained


def _rank(block: FirstBlock, sentences: list[tuple[int, ...]]) -> int:
    """Return how many independent inputs of the first perceptron sentences have."""
    inputs = torch.cat([sentence_inputs(block, torch.tensor(one))[0] for one in sentences])
    return span_of(inputs.T, EXACT).rank


class Assembly:
    """Candidates of a batch as the attention sees them, and the equations of the first perceptron's span."""

    def __init__(self, block: FirstBlock, accepted: Accepted, span: Span) -> None:
        self.block, self.accepted, self.span = block, accepted, span
        self._query, self._key, value = block.attention(accepted.tokens, accepted.places)
        self._value, norm = value, block.second
        self._embedded = block.embedded(accepted.tokens, accepted.places)
        zero = block.output(value.new_zeros(1, block.width))
        self._through = block.output(torch.eye(block.width).to(value)) - zero
        self._zero = zero[0]
        directions = norm.weight[:, None] * span.normal
        self._equations = directions - directions.mean(0) if norm.centred else directions
        self._shift = span.normal.T @ norm.bias
        by_head = self._through.view(*value.shape[1:], -1)
        self._seen = torch.einsum("jhk,hkc->jhc", value, by_head @ self._equations)

    @property
    def faithful(self) -> float:
        """Return the distance up to which an input is one of the span for certain."""
        return FAITHFUL * self.span.rounding

    def around(self, anchor: int, last: bool) -> dict[tuple[int, ...], float]:
        """Return the sentences that hold a candidate, as its last token or not, with distances from the span."""
        own = int(self.accepted.places[anchor])
        allowed = self.accepted.places != own
        allowed[anchor] = True
        if last:
            allowed &= self.accepted.places <= own
        return self._solved(anchor, allowed, HELD)

    def _solved(self, anchor: int, allowed: Tensor, held: int) -> dict[tuple[int, ...], float]:
        numbers = allowed.nonzero()[:, 0]
        weights, misfit = self.fitted(anchor, numbers)
        sentence, unclear = self._rounded(numbers, weights)
        far = self._distance(sentence)
        near = {sentence: far} if far <= self.span.tolerance else {}
        if far <= self.faithful or not held or unclear < 0 or misfit > self.span.rounding**MIXED:
            return near
        here = numbers[self.accepted.places[numbers] == unclear]
        by_weight = weights[self.accepted.places[numbers] == unclear].argsort(descending=True)
        found = near
        for candidate in here[by_weight[:CHOICES]].tolist():
            narrower = allowed & ((self.accepted.places != unclear) | (torch.arange(len(allowed)) == candidate))
            found |= self._solved(anchor, narrower, held - 1)
        return found

    def _rounded(self, numbers: Tensor, weights: Tensor) -> tuple[tuple[int, ...], int]:
        """Return the heaviest tokens from the first place on, and the place whose choice is least clear, or -1."""
        sentence, unclear, least = [], -1, 1.0
        places = self.accepted.places[numbers]
        for place in range(int(places.max()) + 1):
            own = (places == place).nonzero()[:, 0]
            if len(own) == 0 or float(weights[own].sum()) < 0.5:
                break
            best = own[weights[own].argmax()]
            sentence.append(int(self.accepted.tokens[numbers[best]]))
            if float(weights[best]) < least and len(own) > 1:
                least, unclear = float(weights[best]), place
        return tuple(sentence), unclear

    def _distance(self, sentence: tuple[int, ...]) -> float:
        if not sentence:
            return 1.0
        return float(self.span.distances(sentence_inputs(self.block, torch.tensor(sentence))[0]).max())

    def fitted(self, anchor: int, numbers: Tensor) -> tuple[Tensor, float]:
        """Return the weights m [n] of candidates around an anchor, and the misfit: distance from the span."""
        places, own = self.accepted.places[numbers], int(self.accepted.places[anchor])
        scores = torch.einsum("hk,jhk->jh", self._query[anchor], self._key[numbers])
        exponents = (scores - scores.max(0).values).exp()
        _, group, sizes = torch.unique(places, return_inverse=True, return_counts=True)
        weights, misfit = 1.0 / sizes[group].double(), 1.0
        rows, stood, seen = _one_each(places, own), 0, self._seen[numbers]
        for _ in range(ROUNDS):
            jacobian, value, length = self._linear(anchor, numbers, exponents, weights, seen)
            if not bool(jacobian.isfinite().all()):  # no candidate had a weight: there is nothing to solve any more
                return torch.zeros_like(weights), 1.0
            before, misfit = misfit, float(value.norm() / length)
            stood += misfit > FALLING * before
            if misfit <= self.span.rounding or stood == PATIENCE:
                break
            weights = _non_negative(jacobian, jacobian @ weights - value, rows)
        return weights, misfit

    def _linear(
        self, anchor: int, numbers: Tensor, exponents: Tensor, weights: Tensor, seen: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivative [c, n] of the equations, their value [c], and the length of the anchor's input."""
        norm, values, given = self.block.second, self._value[numbers], weights > 0
        shares = exponents / (weights[:, None] * exponents).sum(0)
        given_shares = weights[given, None] * shares[given]
        mean = torch.einsum("jh,jhk->hk", given_shares, values[given])
        between = self._embedded[anchor] + self._zero + mean.flatten() @ self._through
        centred = norm.centre(between)
        size = norm.size(centred)
        value = between @ self._equations + size * self._shift
        mean_seen = torch.einsum("jh,jhc->hc", given_shares, seen[given])
        jacobian = torch.bmm(shares[:, None], seen)[:, 0] - shares @ mean_seen
        onto = (self._through @ centred).view_as(mean)
        along = (shares * ((values * onto).sum(-1) - (mean * onto).sum(-1))).sum(-1) / (self.block.width * size)
        jacobian = jacobian + along[:, None] * self._shift
        return jacobian.T, value, (norm.weight * centred + size * norm.bias).norm()


def _one_each(places: Tensor, own: int) -> Tensor:
    """Return who stands at each place [places, n + slacks], with a slack for each place behind ``own``."""
    there = torch.unique(places)
    rows = (places == there[:, None]).double()
    slack = torch.eye(len(there), dtype=torch.float64)[:, there > own]
    return torch.cat([rows, slack], 1)


def _non_negative(jacobian: Tensor, target: Tensor, rows: Tensor) -> Tensor:
    """Return the weights from 0 that fit the equations with one token at each place, [n]."""
    firm = FIRM * float(jacobian.norm(dim=0).max())
    count, slacks = jacobian.shape[1], rows.shape[1] - jacobian.shape[1]
    whole = torch.cat([torch.cat([jacobian, jacobian.new_zeros(len(jacobian), slacks)], 1), firm * rows])
    wanted = torch.cat([target, firm * target.new_ones(len(rows))])
    solution, _ = nnls(whole.numpy(), wanted.numpy())
    return torch.from_numpy(np.asarray(solution[:count]))
