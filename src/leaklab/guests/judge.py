"""One network of an arena, in a child: what each attacker reads of a guest's updates, told one by one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from leaklab.attacks.adaptive.noise import NormalLikelihood
from leaklab.attacks.annealed import AnnealedMap
from leaklab.guests import price
from leaklab.guests.arenas import PRICE
from leaklab.guests.calls import FunctionDefense, Subject, sent
from leaklab.guests.card import SILENT
from leaklab.guests.description import describe
from leaklab.guests.exposure import EARLIER, Attacker, Exposure
from leaklab.guests.informed import informed
from leaklab.guests.laboratory import Laboratory, Update
from leaklab.guests.learning import who_averages, who_learnt
from leaklab.guests.maps import Fact
from leaklab.guests.moments import load
from leaklab.guests.rules import by_rule
from leaklab.guests.sentences import exposure_of
from leaklab.records.errors import UserError
from leaklab.records.tensor_algebra import NO_ALGEBRA

Tell = Callable[[dict[str, Any]], None]


def judged(
    file: Path,
    phase: Callable[[str], None],
    row: Tell,
    network: str,
    arena: str = "tiny",
    arena_name: str = "",
    sha256: str = "",
    seed: int = 0,
    offered: str = "",
) -> dict[str, Any]:
    """Return how much of an entry changes on one network; facts and rows of attackers are told when they are ready.

    Args:
        file: of the guest.
        phase: told what is done now.
        row: told what an attacker read.
        network: one of the arena's.
        arena: see ``moments.load``.
        arena_name: the same.
        sha256: that the file must have; empty for any.
        seed: of everything that is drawn.
        offered: see ``files.find``.

    Raises:
        UserError: it cannot be judged.
    """
    phase("it was imported")
    subject = Subject.load(file, sha256, offered)
    phase(f"it was described on the {network}")
    where = load(arena, arena_name)
    facts = describe(Laboratory(subject, network, where))
    _refuse_what_trains_nobody(file, facts)
    phase(f"it defended the {network}")
    exposure = exposure_of(subject, network, seed, where)
    said = [fact.text for fact in facts] + ([SILENT] if exposure.is_silent else [])
    row({"network": network, "attacker": "facts", "facts": said})
    row({"network": network, "attacker": "control", "by": "no-op", "same": control(exposure)})
    row(_guess(exposure))
    for own, attacker in attackers(exposure, facts, phase):
        row(_row(own, attacker, own.plain if attacker.kind == "undefended" else own.defended))
    phase(f"noise of its energy was attacked on the {network}")
    if (energy := exposure.energy()) and not exposure.is_silent:
        row(_noise(exposure, "noise", energy))
    if any(fact.name == "random" for fact in facts) and not exposure.is_silent:
        phase(f"the mean of rounds was attacked on the {network}")
        row(_row(exposure, who_averages(exposure), [exposure.mean_of_rounds(moment) for moment in exposure.moments]))
    costs = _price(exposure, row, phase) if where.file.price and network == next(iter(where.file.networks)) else None
    subject.unchanged()
    return {"changes": energy, "price": costs}


def attackers(
    exposure: Exposure, facts: Sequence[Fact], phase: Callable[[str], None] = lambda text: None
) -> Iterator[tuple[Exposure, Attacker]]:
    """Yield who attacks, those who know nothing first, with the moment at which each does.

    What says nothing of the images is attacked by nobody: that it is not read is no merit.
    """
    network = exposure.network
    if exposure.is_silent:
        yield exposure, Attacker("undefended", exposure.SEARCH, AnnealedMap())
        return
    first = (Attacker(kind, exposure.SEARCH, AnnealedMap()) for kind in ("undefended", "unaware"))
    for attacker in (*first, *by_rule(exposure, facts), *informed(exposure, facts)):
        phase(f"{attacker.by} attacked it on the {network}")
        yield exposure, attacker
    phase(f"it was rehearsed on the {network}")
    yield exposure, who_learnt(exposure)
    if any(fact.name == "memory" for fact in facts):
        phase(f"it was rehearsed over rounds on the {network}")
        later = replace(exposure, earlier=EARLIER)
        who = who_learnt(later)
        yield later, replace(who, by=f"{who.by}, round {EARLIER + 1}")


def _noise(exposure: Exposure, kind: str, sigma: float) -> dict[str, Any]:
    """Return what is read of noise in place of the defense by who knows its law."""
    noise = Attacker(kind, f"matched-noise, sigma {sigma:.3g}", AnnealedMap(), NormalLikelihood(sigma))
    return _row(exposure, noise, exposure.noisy(sigma))


def _price(exposure: Exposure, row: Tell, phase: Callable[[str], None]) -> dict[str, Any]:
    """Return what the defense costs; noise of the same price is attacked, if it was found on the same network."""
    own = exposure.arena.file
    phase("it was trained with, for its price")
    found = price.priced(replace(exposure, network=PRICE))
    if own.price is not None and own.price != own.networks[exposure.network]:
        return {**found.model_dump(), "network": own.price.words}
    if found.noise:
        row(_noise(exposure, "noise of the same price", found.noise))
    return found.model_dump()


def control(exposure: Exposure) -> bool:
    """Return whether a guest that does nothing sends the gradients themselves, to the bit.

    Then the same search reads the same of it as of no defense, and need not be run. What a file changes outside of
    itself, of torch say, shows here.
    """
    # on the network without the guest, who may change it
    for client, (moment, plain) in enumerate(zip(exposure.undefended, exposure.plain, strict=True)):
        update = sent(exposure.subject, FunctionDefense(lambda gradients: gradients), replace(moment, client=client))
        if update.keys() != plain.keys() or not all(torch.equal(update[name], plain[name]) for name in plain):
            return False
    return True


def _guess(exposure: Exposure) -> dict[str, Any]:
    """Return the guesses, with the images that are attacked."""
    guesses, truth = exposure.guesses(), exposure.private.images
    common = {"network": exposure.network, "attacker": "guess", "by": guesses.attacker.by, "labels": None}
    originals = exposure.pictures(replace(guesses, images=truth))["images"]
    pictures = {**exposure.pictures(guesses), "originals": originals}
    channels = exposure.arena.shape[0] if exposure.arena.unit == "dB" else 0
    return {**common, "scores": guesses.scores(truth), "channels": channels, **pictures}


def _refuse_what_trains_nobody(file: Path, facts: list[Fact]) -> None:
    """Refuse an update of zero, or of noise alone, which hides all and is no defense.

    Raises:
        UserError: what is sent depends on neither gradient nor images.
    """
    said = {fact.name: fact.value for fact in facts}
    if "ignores the gradient" in said and "image" not in said.get("looks at", ()):
        raise UserError(
            f"{file}: what it sends depends on neither the gradient nor the images: it trains nobody, so it is no "
            "defense; send something of the gradient"
        )


def _row(exposure: Exposure, attacker: Attacker, updates: list[Update]) -> dict[str, Any]:
    """Return what an attacker read; one that fails has no numbers and says why."""
    began = time.monotonic()
    common = {"network": exposure.network, "attacker": attacker.kind, "by": attacker.by}
    try:
        reading = exposure.read(attacker, updates)
    except (UserError, *NO_ALGEBRA) as error:
        return {**common, "failed": str(error), "seconds": time.monotonic() - began}
    scores, labels, pictures = (
        reading.scores(exposure.private.images), exposure.labels_read(reading), exposure.pictures(reading),
    )  # fmt: skip
    return {**common, "scores": scores, "labels": labels, **pictures, "seconds": time.monotonic() - began}
