"""One network of the arena, in a child: what each attacker reads of a guest's updates, told one by one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from leaklab.attacks.adaptive.noise import NormalLikelihood
from leaklab.attacks.annealed import AnnealedMap
from leaklab.guests import price
from leaklab.guests.arena import EARLIER, Attacker, Tiny
from leaklab.guests.calls import FunctionDefense, Subject, sent
from leaklab.guests.description import describe
from leaklab.guests.informed import informed
from leaklab.guests.laboratory import Laboratory, Update
from leaklab.guests.learning import who_averages, who_learnt
from leaklab.guests.maps import Fact
from leaklab.guests.pictures import encoded
from leaklab.guests.rules import by_rule
from leaklab.records.errors import UserError

Tell = Callable[[dict[str, Any]], None]


def judged(
    file: Path,
    phase: Callable[[str], None],
    row: Tell,
    network: str,
    sha256: str = "",
    seed: int = 0,
    offered: str = "",
) -> dict[str, Any]:
    """Return how much of an entry changes on one network; facts and rows of attackers are told when they are ready.

    Args:
        file: of the guest.
        phase: told what is done now.
        row: told what an attacker read.
        network: one of ``moments.NETWORKS``.
        sha256: that the file must have; empty for any.
        seed: of everything that is drawn.
        offered: see ``files.find``.

    Raises:
        UserError: it cannot be judged.
    """
    phase("it was imported")
    subject = Subject.load(file, sha256, offered)
    phase(f"it was described on the {network}")
    facts = describe(Laboratory(subject, network))
    _refuse_what_trains_nobody(file, facts)
    row({"network": network, "attacker": "facts", "facts": [fact.text for fact in facts]})
    phase(f"it defended the {network}")
    arena = Tiny(subject, network, seed)
    row({"network": network, "attacker": "control", "by": "no-op", "same": control(arena)})
    row(_guess(arena))
    for where, attacker in attackers(arena, facts, phase):
        row(_row(where, attacker, where.plain if attacker.kind == "undefended" else where.defended))
    phase(f"noise of its energy was attacked on the {network}")
    if energy := arena.energy():
        row(_noise(arena, "noise", energy))
    if any(fact.name == "random" for fact in facts):
        phase(f"the mean of rounds was attacked on the {network}")
        row(_row(arena, who_averages(arena), [arena.mean_of_rounds(moment) for moment in arena.moments]))
    costs = _price(arena, row, phase) if network == price.NETWORK else None
    subject.unchanged()
    return {"changes": energy, "price": costs}


def attackers(
    arena: Tiny, facts: Sequence[Fact], phase: Callable[[str], None] = lambda text: None
) -> Iterator[tuple[Tiny, Attacker]]:
    """Yield who attacks, those who know nothing first, with the moment at which each does."""
    network = arena.network
    first = (Attacker(kind, "annealed-map", AnnealedMap()) for kind in ("undefended", "unaware"))
    for attacker in (*first, *by_rule(facts, network), *informed(arena, facts)):
        phase(f"{attacker.by} attacked it on the {network}")
        yield arena, attacker
    phase(f"it was rehearsed on the {network}")
    yield arena, who_learnt(arena)
    if any(fact.name == "memory" for fact in facts):
        phase(f"it was rehearsed over rounds on the {network}")
        later = Tiny(arena.subject, network, arena.seed, EARLIER)
        who = who_learnt(later)
        yield later, replace(who, by=f"{who.by}, round {EARLIER + 1}")


def _noise(arena: Tiny, kind: str, sigma: float) -> dict[str, Any]:
    """Return what is read of noise in place of the defense by who knows its law."""
    noise = Attacker(kind, f"matched-noise, sigma {sigma:.3g}", AnnealedMap(), NormalLikelihood(sigma))
    return _row(arena, noise, arena.noisy(sigma))


def _price(arena: Tiny, row: Tell, phase: Callable[[str], None]) -> dict[str, Any]:
    """Return what the defense costs; noise of the same price is attacked."""
    phase(f"it was trained with on the {arena.network}")
    found = price.priced(arena.subject, arena.seed)
    if found.noise:
        row(_noise(arena, "noise of the same price", found.noise))
    return found.model_dump()


def control(arena: Tiny) -> bool:
    """Return whether a guest that does nothing sends the gradients themselves, to the bit.

    Then the same search reads the same of it as of no defense, and need not be run. What a file changes outside of
    itself, of torch say, shows here.
    """
    images, labels = arena.private.images, arena.private.labels
    for client, plain in enumerate(arena.plain):  # on the network without the guest, who may change it
        moment = arena.original.moment(images[client : client + 1], labels[client : client + 1])
        update = sent(arena.subject, FunctionDefense(lambda gradients: gradients), replace(moment, client=client))
        if update.keys() != plain.keys() or not all(torch.equal(update[name], plain[name]) for name in plain):
            return False
    return True


def _guess(arena: Tiny) -> dict[str, Any]:
    """Return the guesses, with the images that are attacked."""
    guesses, truth = arena.guesses(), arena.private.images
    common = {"network": arena.network, "attacker": "guess", "by": guesses.attacker.by, "labels": None}
    return {
        **common, "decibels": guesses.decibels(truth), "images": encoded(guesses.images), "originals": encoded(truth),
    }  # fmt: skip


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


def _row(arena: Tiny, attacker: Attacker, updates: list[Update]) -> dict[str, Any]:
    """Return what an attacker read; one that fails has no numbers and says why."""
    began = time.monotonic()
    common = {"network": arena.network, "attacker": attacker.kind, "by": attacker.by}
    try:
        reading = arena.read(attacker, updates)
    except (UserError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        return {**common, "failed": str(error), "seconds": time.monotonic() - began}
    right = int((reading.labels == arena.private.labels).sum())
    decibels = reading.decibels(arena.private.images)
    images = encoded(reading.images)
    return {**common, "decibels": decibels, "labels": right, "images": images, "seconds": time.monotonic() - began}
