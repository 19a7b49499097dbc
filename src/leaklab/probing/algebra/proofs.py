"""Proofs: what an exchange shows of samples by algebra alone, and what of it is certain without anybody's truth.

Every layer that a sample meets as an affine map is found by experiment and read. A reading is of the input only if a
sample follows from what the layer saw; else it says which layer's input it is. It is proven only if, besides, the whole
network agrees (``closing.py``), and there are as many samples as the client says that it used: servers are told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.algebra import patches, token_rows
from leaklab.probing.algebra.closing import Closing, beside, closes
from leaklab.probing.algebra.first_affine import Update, batches, quotients, single, update_of
from leaklab.probing.algebra.lengths import with_length
from leaklab.probing.algebra.readers import Reader, readers
from leaklab.probing.algebra.rehearsal import FAILURES, SAMPLES, Rehearsal, rehearse
from leaklab.probing.algebra.replayed import replays
from leaklab.probing.algebra.sample_maps import SampleMap
from leaklab.probing.case import Case
from leaklab.probing.reading import Reading
from leaklab.records import tensor_algebra


@dataclass(frozen=True, eq=False)
class Proofs:
    """What was read without a search.

    Attributes:
        readings: one for each sample, layer's input or set of tokens.
        notes: what was not read or not proven, and why, a sentence each.
    """

    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = field(default=())

    def lines(self) -> tuple[str, ...]:
        """Return what there is to say, a sentence each."""
        groups: dict[tuple[str, str, bool], int] = {}
        for one in self.readings:
            key = (one.by, one.of, one.proven)
            groups[key] = groups.get(key, 0) + 1
        return (*(_sentence(*key, number) for key, number in groups.items()), *self.notes)

    def record(self) -> dict[str, Any]:
        """Return all but the values for JSON."""
        return {
            "readings": [
                {"by": one.by, "of": one.of, "proven": one.proven, "shape": list(one.values.shape)}
                for one in self.readings
            ],
            "notes": list(self.notes),
        }


def _sentence(by: str, of: str, proven: bool, number: int) -> str:
    what = f"{number} {'sample' if number == 1 else 'samples'}"
    if by == token_rows.NAME:
        what = f"the tokens of the batch in {of}"
    elif of != "input":
        what = f"what {of} saw of {what}"
    how = "proven" if proven else "not proven"
    return f"Read without a search by '{by}': {what}, {how}."


def proofs(case: Case, rehearsal: Rehearsal | None = None) -> Proofs:
    """Return what an exchange shows by algebra alone.

    Args:
        case: the exchange. Of its samples only shape, type, range and number are used.
        rehearsal: of its client, where there is one already.
    """
    try:
        rehearsal = rehearsal or rehearse(case)
        found, notes = readers(case, rehearsal)
    except FAILURES as failed:
        return Proofs((), (f"Nothing is read without a search: {failed}",))
    readings, said = list[Reading](), list[str]()
    for tokens in token_rows.token_rows(case, rehearsal):
        (said if isinstance(tokens, str) else readings).append(tokens)  # type: ignore[arg-type]
    ways = [one for one in found if isinstance(one.way, SampleMap)]
    shut = [one for one in found if one.places == 1 and one not in ways]
    for reader in [*ways, *shut[:1]]:
        if reader in shut and readings:
            break  # samples are there, and what a layer behind saw of them says no more
        try:
            for one in _read(case, rehearsal, reader):
                (said if isinstance(one, str) else readings).append(one)  # type: ignore[arg-type]
        except FAILURES as failed:
            said.append(f"{reader.layer} could not be read: {failed}")
    if not any(one.of == "input" for one in readings):
        said += [f"From {one.layer} no sample follows: {one.way}." for one in found if isinstance(one.way, str)][:1]
    return Proofs(tuple(readings), tuple(dict.fromkeys([*said, *notes])))


def _read(case: Case, rehearsal: Rehearsal, reader: Reader) -> Iterator[Reading | str]:
    """Yield what one reader shows, and why it is not proven."""
    if reader.places > 1:
        yield from _read_places(case, rehearsal, reader)
        return
    held = update_of(reader, case, rehearsal)
    if not held.rank:
        yield f"The update of {reader.layer} is nothing but rounding, so it is not read."
        return
    of = "input" if isinstance(reader.way, SampleMap) else reader.layer
    if held.rank == 1:
        yield from _read_one(case, rehearsal, reader, held, of)
    elif held.layer is None:
        yield f"{reader.layer} has no bias that is sent, so that {held.rank} samples are not told apart in it."
    else:
        yield from _read_batch(case, rehearsal, reader, held, of)


def _closing(case: Case, rehearsal: Rehearsal, reader: Reader) -> Closing:
    return Closing(case, rehearsal, None if isinstance(reader.way, SampleMap) else reader.seen.number)


def _why_not(case: Case, rehearsal: Rehearsal, reader: Reader, held: Update, values: Tensor) -> str | None:
    """Return why samples [N, ...] are not proven; None where they are."""
    told = case.told()
    if told is None:
        return "nobody says how many samples there were"
    if told != len(values):
        return f"there were {told} samples, and the update shows {len(values)}"
    if held.counts < min(SAMPLES, told + 1):
        return f"the layer's update has rank {held.counts} even of {SAMPLES} samples of noise, so it counts none"
    if not held.rounded:
        return "the layer's update is no sum over so few samples up to rounding"
    closing = _closing(case, rehearsal, reader)
    if not closing.names and len(values) == 1 and closing.instead is None:
        return replays(case, rehearsal, values)
    return closes(closing, values, beside(values, case.seed))


def _read_one(case: Case, rehearsal: Rehearsal, reader: Reader, held: Update, of: str) -> Iterator[Reading | str]:
    """Yield the one sample of an update of rank one."""
    by, values, why = "ratio", single(held), None
    if held.bias is None:
        by = "direction"
        found = _with_length(case, rehearsal, reader, held)
        if found is None:
            why = f"{reader.layer} has no bias that is sent, so it is known up to length and sign only"
        else:
            by, values = "length", found
    if values is None:
        return
    why = why or _why_not(case, rehearsal, reader, held, values)
    yield Reading(by, of, values[0], why is None)
    if why is not None:
        yield f"What '{by}' reads of {reader.layer} is not proven: {why}."


def _with_length(case: Case, rehearsal: Rehearsal, reader: Reader, held: Update) -> Tensor | None:
    """Return the sample [1, ...] whose direction a layer without a bias shows; None where its length is not found."""
    way = reader.way
    if not isinstance(way, SampleMap) or case.told() != 1:
        return None
    unit = tensor_algebra.svd(reader.weight_update(case, rehearsal))[2][:1].to(way.offset)
    unit = unit if unit.sum() > 0 else -unit
    typical = float(reader.seen.given.detach().reshape(-1, unit.shape[1]).norm(dim=1).mean())
    found = with_length(Closing(case, rehearsal), lambda length: way.back(length * unit[:, None]), typical)
    return None if found is None else found.to(held.weight)


def _read_batch(case: Case, rehearsal: Rehearsal, reader: Reader, held: Update, of: str) -> Iterator[Reading | str]:
    best, by, why = None, "", "no way tells so many samples apart"
    for name, batch in batches(held, reader.rectified and not rehearsal.draws, case.seed):
        values = torch.from_numpy(batch.images).reshape(-1, *held.shape).to(held.weight)
        reason = _why_not(case, rehearsal, reader, held, values) if batch.proven or batch.certified else "unlikely"
        if reason is None:
            yield from (Reading(name, of, one, True) for one in values)
            return
        if batch.certified and best is None:
            best, by, why = values, name, reason
    alone = quotients(held)
    if best is not None:
        yield from (Reading(by, of, one, False) for one in best if bool(one.isfinite().all()))
    elif len(alone):
        by, why = "quotients", "a batch is proven only as a whole"
        yield from (Reading(by, of, one, False) for one in alone)
    yield f"Of the {held.rank} samples or more in {reader.layer} not all are proven: {why}."


def _read_places(case: Case, rehearsal: Rehearsal, reader: Reader) -> Iterator[Reading | str]:
    found = patches.patches(case, rehearsal, reader)
    if isinstance(found, str):
        yield found
        return
    told = case.told()
    why = "nobody says how many samples there were" if told is None else f"there were {told} samples"
    closed = None if told != 1 else closes(Closing(case, rehearsal), found[None], beside(found[None], case.seed))
    proven = told == 1 and closed is None
    if told is not None and told > 1:
        yield f"{reader.layer} shows the patches of one sample, and {why}: they are not read."
        return
    yield Reading(patches.NAME, "input", found, proven)
    if not proven:
        yield f"What '{patches.NAME}' reads of {reader.layer} is not proven: {closed or why}."
