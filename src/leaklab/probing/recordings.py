"""From what the command is given, a case file or a folder of recorded exchanges, to the probes of it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from leaklab.probing.card import Probe, stage_lines
from leaklab.probing.case_file import CaseFile, read_case
from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.probing.owned import with_state
from leaklab.probing.probe import probe
from leaklab.probing.recorded import recorded, truth_of
from leaklab.probing.stages import Done
from leaklab.records.errors import UserError


def probes_of(
    place: Path,
    client: Path | None,
    truth: Path | None,
    budget: str,
    seed: int,
    *,
    progress: bool,
    began: float | None = None,
) -> Iterator[tuple[str, Probe]]:
    """Yield the probe of a case file, with no name, or those of all exchanges of a folder, with their names.

    Args:
        place: the file, or the folder.
        client: of a folder, the case file whose client trained them.
        truth: of a folder, the private folder into which ``record_truth`` wrote; None if nobody did.
        budget: of each probe.
        seed: of everything that is drawn.
        progress: tell each stage as soon as it is over.
        began: of a file, the time from which its budget counts; None for that of its probe.

    Raises:
        UserError: a file or folder that cannot be read.
    """
    said = _tell if progress else _keep_still
    if not place.is_dir():
        if client is not None or truth is not None:
            raise UserError(f"{place} is no folder: --client and --truth are for folders of recorded exchanges")
        file = read_case(place)
        yield "", probe(
            file.client, file.inputs, file.targets, file.update, public=file.public, others=file.others,
            tokenizer=file.tokenizer, budget=budget, seed=seed, file=file.name, sha256=file.sha256, said=said,
            began=began,
        )  # fmt: skip
        return
    if client is None:
        raise UserError(f"{place} is a folder: add --client FILE, the case file that defines the client that trained")
    file = read_case(client)
    found = recorded(place, file.client.model)
    for line in found.lines():
        print(line, file=sys.stderr)
    states = {str(one.facts["at"]): one.before for one in found}
    for exchange in found:
        at = str(exchange.facts["at"])
        if progress:
            print(f"\n{at}", flush=True)
        inputs, targets = _samples(file, truth, exchange, len(found))
        others = {**file.others, **{name: state for name, state in states.items() if name != at}}
        yield at, probe(
            given(file.client, exchange), inputs, targets, exchange, public=file.public, others=others,
            tokenizer=file.tokenizer, budget=budget, seed=seed, file=at, sha256=file.sha256, said=said,
        )  # fmt: skip


def given(client: Client, exchange: Exchange) -> Client:
    """Return a client with the weights that it was given in an exchange, which sends what it sent there."""
    return replace(client, model=with_state(client.model, exchange.before), sends=exchange.kind)


def _samples(
    file: CaseFile, truth: Path | None, exchange: Exchange, number: int
) -> tuple[Tensor | None, Tensor | None]:
    if truth is not None:
        return truth_of(truth, exchange)
    # samples of a case file belong to one exchange; of several nobody says to which
    return (file.inputs, file.targets) if number == 1 else (None, None)


def _tell(done: Done) -> None:
    for line in stage_lines(done.record()):
        print(line, flush=True)


def _keep_still(_: Done) -> None:
    pass
