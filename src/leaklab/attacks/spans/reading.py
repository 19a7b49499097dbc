"""All readings of one update together: which one fits the network and what was trained, and what is proven.

A certificate is one of the following and nothing else: as many distinct prefixes as the rank of the first perceptron's
inputs, or inputs of that rank for an encoder, with a gap of more than 20 behind it; in sparse reading a part of each
that is 20 times what all of them leave; and besides, for next-token loss and for encoders, whose search is not
exhaustive, that the sentences' own update is the observed one, factor aside. A count of tokens in the first attention
is none, since places are additive: any token at any place of a connected component lies in that span. Neither is what
comes nearest to a blurred gradient, nor a ranking.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.spans.adapted import is_adapted, read_adapted
from leaklab.attacks.spans.assembly import read_sentences
from leaklab.attacks.spans.moved import rounding_of
from leaklab.attacks.spans.nearest import leading, likeliest, nearest_prefixes
from leaklab.attacks.spans.prefixes import ReadPrefixes, read_prefixes
from leaklab.attacks.spans.span import ROUNDING, Candidates, NotToldError, Span, refuse, span_of
from leaklab.attacks.spans.targets import read_labels, read_targets, recomputed
from leaklab.models.text.first_block import FirstBlock, first_block
from leaklab.records import tensor_algebra
from leaklab.records.errors import UserError

Way = Literal["rank", "sparse", "first step", "assembly", "nearest", "ranking"]
SAME = 1e-6
"""Distance of two updates over their length, up to which they are one; that of float32's sums."""
ALMOST = 1e-3
"""The same where an update is a difference of rounded weights: one token more of a thousand is a larger one."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read of an update.

    Attributes:
        sentences: each a tuple of tokens; of next-token loss without the last one where that cannot be read.
            Of classes, a sentence that begins another one of the batch is read as part of it.
        tokens: the set of all tokens that may be in the batch.
        proven: whether there is a certificate for all sentences.
        way: by which they were read.
    """

    sentences: tuple[tuple[int, ...], ...]
    tokens: frozenset[int]
    proven: bool
    way: Way


def read(network: nn.Module, update: Mapping[str, Tensor], end: int | None = None, change: float = 0.0) -> Reading:
    """Return all sentences of the batch behind one update of one step.

    Args:
        network: of ``models/text`` with the broadcast weights.
        update: gradients by name, times any factor; frozen parameters are missing.
        end: the token that ends every sentence, if there is one.
        change: by what the update has to be multiplied to be a difference of weights; 0 if it never was one.

    Raises:
        UserError: an update without what is needed.
        NotToldError: too many tokens for the width, or noise that hides the rank.
    """
    block = first_block(network)
    if is_adapted(update):
        thin = read_adapted(block, update, change)
        leaves = tuple(thin.prefixes.sentence(leaf) for leaf in thin.prefixes.leaves())
        return Reading(leaves, frozenset(thin.accepted.tokens.tolist()), thin.proven, thin.way)
    first, second = input_span(block, update, "attention"), input_span(block, update, "mlp")
    refuse(first, "tokens")
    accepted = Candidates(block).accepted(first)
    tokens = frozenset(accepted.tokens.tolist())
    if not second.told:
        return Reading((), tokens, proven=False, way="rank")
    if not block.causal:
        encoded = read_sentences(block, accepted, second, end)
        proven = encoded.proven and _same_classes(block, encoded.sentences, update, change)
        return Reading(encoded.sentences, tokens, proven, "assembly")
    return _decoded(block, update, read_prefixes(block, accepted, second), tokens, change)


NOTHING = Reading((), frozenset(), proven=False, way="ranking")
"""Where not even a ranking is told."""


def read_or_rank(
    network: nn.Module,
    update: Mapping[str, Tensor],
    length: Callable[[], int],
    batch: int,
    end: int | None = None,
    change: float = 0.0,
) -> Reading:
    """Read what can be read, else take what comes nearest, else rank; ``NOTHING`` where that tells nothing either.

    Args:
        network: as in ``read``.
        update: as in ``read``.
        length: of the longest sentence, asked for where a ranking begins.
        batch: as in ``ranked``.
        end: as in ``read``.
        change: as in ``read``.

    Raises:
        UserError: an update without what is needed.
    """
    found = NOTHING
    with suppress(NotToldError):
        found = read(network, update, end, change)
    if found.proven or is_adapted(update):
        return found
    block = first_block(network)
    try:
        long = length()
    except NotToldError:
        long = block.positions if block.causal else 0
    near = nearest(block, update, long, batch) if block.causal else NOTHING
    if near.sentences or found.sentences or (batch > 1 and found.tokens):
        return near if near.sentences else found
    try:
        return ranked(network, update, long, batch)
    except NotToldError:
        return found


def nearest(block: FirstBlock, update: Mapping[str, Tensor], length: int, batch: int) -> Reading:
    """Return the sentences of a decoder that come nearest, without any proof: for noise, pruning, several steps.

    Args:
        block: the first block.
        update: as in ``read``.
        length: of the longest sentence.
        batch: sentences.
    """
    most, candidates = min(length * batch, block.width - 1), Candidates(block)
    attention, mlp = (leading(_columns(block, update, part), most) for part in ("attention", "mlp"))
    if attention is None or mlp is None:
        return NOTHING
    found = nearest_prefixes(block, likeliest(candidates, attention, length, batch), mlp, most)
    if not len(found.prefixes):
        return NOTHING
    sentences = [found.prefixes.sentence(leaf) for leaf in found.prefixes.leaves()]
    if (last := _last_gradient(block, update)) is not None:
        sentences = list(read_targets(block, found.prefixes, last))
    return Reading(tuple(sentences), frozenset(chain.from_iterable(sentences)), proven=False, way="nearest")


def _decoded(
    block: FirstBlock, update: Mapping[str, Tensor], found: ReadPrefixes, tokens: frozenset[int], change: float
) -> Reading:
    leaves = tuple(found.prefixes.sentence(leaf) for leaf in found.prefixes.leaves())
    gradient = _last_gradient(block, update)
    if not leaves or gradient is None:
        return Reading(leaves, tokens, found.proven, "rank")
    sentences = read_targets(block, found.prefixes, gradient)
    network = block.network.to(gradient.dtype)
    proven = found.proven and recomputed(network, sentences, update) <= _same(network, update, change)
    return Reading(tuple(sentences), tokens | {one[-1] for one in sentences}, proven, "rank")


def _last_gradient(block: FirstBlock, update: Mapping[str, Tensor]) -> Tensor | None:
    """Return the gradient that shows the last tokens, [hidden, d]; None where it is not sent, or the loss has none."""
    (last,) = block.names.of("last", block.blocks - 1)
    if last not in update or not hasattr(block.network, "lm_head"):
        return None
    return update[last].T if block.names.output_first else update[last]


def _same(network: nn.Module, update: Mapping[str, Tensor], change: float) -> float:
    return min(max(SAME, rounding_of(network, update, change)), ALMOST)


def _same_classes(
    block: FirstBlock, found: tuple[tuple[int, ...], ...], update: Mapping[str, Tensor], change: float
) -> bool:
    """Tell whether an encoder's sentences, with the classes that its head shows, have the observed update."""
    network, sentences = block.network.to(next(iter(update.values())).dtype), dict.fromkeys(found, 1)
    labels = read_labels(network, sentences, update)
    return labels is not None and recomputed(network, sentences, update, labels) <= _same(network, update, change)


def input_span(block: FirstBlock, update: Mapping[str, Tensor], part: Literal["attention", "mlp"]) -> Span:
    """Return the span of the inputs of a part of the first block.

    Raises:
        UserError: the update lacks the part's gradients, or they say nothing.
    """
    return span_of(_columns(block, update, part), ROUNDING[next(iter(update.values())).dtype])


def _columns(block: FirstBlock, update: Mapping[str, Tensor], part: str) -> Tensor:
    names = block.names.of(part, 0)
    missing = [name for name in names if name not in update]
    if missing:
        raise UserError(f"the update lacks '{missing[0]}', which this attack reads: choose another attack")
    return torch.cat([update[name].T if block.names.output_first else update[name] for name in names], 1)


def ranked(network: nn.Module, update: Mapping[str, Tensor], length: int, batch: int = 1) -> Reading:
    """Return the likeliest tokens of every place, without any proof: for noise, pruning, several steps.

    The inputs of N tokens span N directions; the N leading ones of the gradient are taken for them.

    Args:
        network: as in ``read``.
        update: as in ``read``.
        length: of the longest sentence, L.
        batch: B sentences, of which no more than B L tokens are there. Of one, its tokens are put in order; of several,
            the set of the B likeliest tokens of every place is returned, and no sentence.

    Raises:
        UserError: the update lacks the first attention's gradients.
        NotToldError: the tokens reach the width.
    """
    block = first_block(network)
    if not 0 < length * batch < block.width:
        raise NotToldError(f"{length * batch} tokens are not told from others at width {block.width}")
    columns = _columns(block, update, "attention").double()
    candidates = Candidates(block)
    basis = tensor_algebra.svd(columns)[0][:, : length * batch]
    shares = candidates.shares(basis, length)
    if batch > 1:
        likely = shares.topk(batch, 0).indices if candidates.placed else shares[:, 0].topk(length * batch).indices
        return Reading((), frozenset(likely.flatten().tolist()), proven=False, way="ranking")
    best = shares.argmax(0) if candidates.placed else shares[:, 0].topk(length).indices
    return Reading((tuple(best.tolist()),), frozenset(best.tolist()), proven=False, way="ranking")
