"""Whole sentences of a probe: the readings of ``attacks/spans`` on the owner's transformer, tokenizer and LoRA.

A certificate is that of the house, or that the client as described, run on the sentences that were read, sends to
rounding what it sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.attacks.spans.moved import midway
from leaklab.attacks.spans.reading import Reading as SpanReading
from leaklab.attacks.spans.reading import read_or_rank
from leaklab.attacks.spans.span import ROUNDING, NotToldError
from leaklab.attacks.spans.targets import read_labels
from leaklab.attacks.text.span_reading import ended, length_of
from leaklab.probing.case import Case
from leaklab.probing.reading import Reading
from leaklab.probing.transformer import Transformer, transformer_of
from leaklab.records.errors import UserError

BY = "span-reading"
CLOSES = 1e-6
"""Distance of two updates over their length up to which they are one, where nothing but float32's sums rounds."""
ALMOST = 1e-4
"""The same where an update is a difference of rounded weights."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """What was read of a client's sentences.

    Attributes:
        readings: one for each sentence; ``values`` are its tokens, padded as the client's rows if those are held.
        tokens: the set of all tokens that may be there.
        way: how they were read, as ``attacks/spans`` names it; empty where they were not.
        refusal: why nothing was read; empty otherwise.
    """

    readings: tuple[Reading, ...]
    tokens: frozenset[int]
    way: str
    refusal: str = ""

    def lines(self) -> tuple[str, ...]:
        """Return what is said of them."""
        if self.refusal:
            return (f"no sentence was read: {self.refusal}",)
        proven = sum(reading.proven for reading in self.readings)
        if not self.readings:
            return (f"{len(self.tokens)} tokens may be in the batch ({self.way}); their order was not read",)
        how = f"{proven} of them proven" if proven else "none of them proven: they are what comes nearest"
        return (f"{len(self.readings)} sentences were read ({self.way}), {how}",)

    def record(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "way": self.way,
            "sentences": len(self.readings),
            "proven": sum(reading.proven for reading in self.readings),
            "tokens": len(self.tokens),
            "refusal": self.refusal or None,
        }


NONE = Sentences((), frozenset(), "")


def sentences(case: Case, end: int | None = None) -> Sentences:
    """Read the sentences behind the update of a transformer.

    Args:
        case: of a model with a transformer inside; samples are rows of token ids, padded or not.
        end: the token that ends every sentence and stands nowhere else, if there is one.
    """
    exchange, client = case.exchange, case.client
    try:
        form = transformer_of(client.model, exchange.before, client.usual, client.output)
        given = {name: exchange.direction(name).cpu().to(value.dtype) for name, value in exchange.sent.items()
                 if name in form.names}  # fmt: skip
        if not given:
            raise UserError("of this transformer's parameters none that is read was sent")
        update = form.update(given)
        _check_types(update)
        change = 0.0 if exchange.kind == "gradient" else 1.0
        network = midway(form.network, update, change, client.steps)
        found = read_or_rank(network, update, lambda: _length(form, update), _batch(case), end, change)
    except (UserError, NotToldError) as refusal:
        return Sentences((), frozenset(), "", str(refusal))
    kept = found.sentences if found.way == "ranking" or end is None else ended(network, found.sentences, end)
    proven = found.proven or (found.way != "ranking" and _closes(case, kept, network, update))
    rows = None if case.inputs is None else _padded(case.inputs, kept)
    values = [torch.tensor(one) for one in kept] if rows is None else list(rows)
    readings = tuple(Reading(BY, "input", one, proven) for one in values)
    return Sentences(readings, found.tokens, _way(found))


def _way(found: SpanReading) -> str:
    return found.way if found.sentences or found.tokens else ""


def _check_types(update: dict[str, Tensor]) -> None:
    for name, value in update.items():
        if value.dtype not in ROUNDING:
            raise UserError(f"{name} is {value.dtype}: sentences are read of float32 and float64")
        if not bool(value.isfinite().all()):
            raise UserError(f"{name} is not finite: look at the loss scale of mixed precision")


def _length(form: Transformer, update: dict[str, Tensor]) -> int:
    return length_of(form.block.names.places, update)


def _batch(case: Case) -> int:
    """Return how many sentences a step has, which a server is told."""
    if case.client.batch_size is not None:
        return case.client.batch_size
    return 1 if case.inputs is None else len(case.inputs)


def _closes(case: Case, kept: Sequence[tuple[int, ...]], network: nn.Module, update: dict[str, Tensor]) -> bool:
    """Tell whether the client, run on these sentences, sends what it sent."""
    if not kept or case.inputs is None or case.client.steps != 1 or case.client.defense is not None:
        return False
    ids = _padded(case.inputs, kept)
    targets = _targets(case, ids, kept, network, update)
    if ids is None or targets is None:
        return False
    try:
        again = case.client.round(ids, targets)
    except (UserError, RuntimeError, IndexError):
        return False
    names = [name for name in case.exchange.sent if name in again.sent]
    theirs = torch.cat([case.exchange.direction(name).flatten() for name in names])
    ours = torch.cat([again.direction(name).flatten() for name in names])
    if not bool(ours.any()):
        return False
    factor = (ours @ theirs) / ours.square().sum()
    limit = CLOSES if case.exchange.kind == "gradient" else ALMOST
    return float((factor * ours - theirs).norm() / theirs.norm()) <= limit


def _padded(inputs: Tensor, kept: Sequence[tuple[int, ...]]) -> Tensor | None:
    """Return sentences in the form of the client's rows, whose padding is what most rows of theirs end with.

    None where they do not fit.
    """
    long = inputs.shape[1]
    if inputs.dim() != 2 or any(len(one) > long for one in kept):
        return None
    padding = int(inputs[:, -1].mode().values)
    return torch.tensor([[*one, *[padding] * (long - len(one))] for one in kept]).to(inputs)


def _targets(
    case: Case, ids: Tensor | None, kept: Sequence[tuple[int, ...]], network: nn.Module, update: dict[str, Tensor]
) -> Tensor | None:
    """Return the next tokens, or the classes that the head's gradient shows."""
    if ids is None or case.targets is None or case.inputs is None:
        return None
    if case.targets.shape == case.inputs.shape:
        return ids
    if not hasattr(network, "classifier"):
        return None
    return read_labels(network, dict.fromkeys(kept, 1), update)
