"""Tokens of a batch, by the rows of a table of embeddings that moved: a row moves where its token is looked up.

Where the table is also the last layer, or shrinks by decay, all rows move; so it is tried on the client's own round on
noise that just the rows of its tokens move.

Source: "Deep Leakage from Gradients" and many since: the rows of an embedding's gradient that are not zero.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from leaklab.probing.algebra.applications import Application, watched
from leaklab.probing.algebra.rehearsal import Rehearsal
from leaklab.probing.algebra.rounding import floor
from leaklab.probing.case import Case
from leaklab.probing.reading import Reading

NAME = "rows"


def token_rows(case: Case, rehearsal: Rehearsal) -> Iterator[Reading | str]:
    """Yield the set of tokens in each table that shows it, and why others do not."""
    client = rehearsal.client
    seen, _ = watched(lambda model: client.output(model, rehearsal.inputs), rehearsal.model(), seed=client.seed)
    for one in {entry.name: entry for entry in reversed(seen) if entry.kind == "table"}.values():
        if not _of_samples(one, rehearsal):
            continue  # positions or types, the same for all samples
        if one.name not in case.exchange.sent or one.name not in rehearsal.gradients:
            yield f"{one.name} is not trained or not sent, so it shows no tokens."
            continue
        if not torch.equal(_moved(rehearsal.plain(rehearsal.sent, one.name), 0.0), torch.unique(one.given).cpu()):
            yield f"{one.name} moves in other rows than those of its tokens, so it shows no tokens."
            continue
        factor = rehearsal.factors.get(one.name)
        # what is not looked up stays the same to the bit; only decay that is taken off leaves rounding
        error = 0.0 if factor is None or not factor.decay else 3 * floor(case, one.name)
        tokens = _moved(rehearsal.plain(case.exchange, one.name), error)
        told = case.told()
        if not len(tokens):
            yield f"No row of {one.name} moved."
        elif told is not None and len(tokens) > told * rehearsal.inputs[0].numel():
            yield f"{len(tokens)} rows of {one.name} moved, more than the batch has tokens: they are not read."
        else:
            yield Reading(NAME, one.name.removesuffix(".weight"), tokens, told is not None)


def _of_samples(one: Application, rehearsal: Rehearsal) -> bool:
    """Return whether what is looked up is the samples' own numbers."""
    return one.given.numel() == rehearsal.inputs.numel() and torch.equal(
        one.given.flatten().cpu(), rehearsal.inputs.flatten().cpu()
    )


def _moved(update: Tensor, error: float) -> Tensor:
    """Return the rows [k] that are not zero, ascending."""
    return (update.abs().amax(1) > error).nonzero().flatten().cpu()
