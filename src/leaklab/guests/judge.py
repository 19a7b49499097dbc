"""One network of the arena, in a child: what each attacker reads of a guest's updates, told one by one."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from leaklab.attacks.adaptive.noise import NormalLikelihood
from leaklab.attacks.annealed import AnnealedMap
from leaklab.guests.arena import Attacker, Tiny, by_rule
from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.informed import informed
from leaklab.guests.laboratory import Laboratory, Update
from leaklab.guests.maps import Fact
from leaklab.records.errors import UserError

Tell = Callable[[dict[str, Any]], None]


def judged(
    file: Path, phase: Callable[[str], None], row: Tell, network: str, sha256: str = "", seed: int = 0
) -> dict[str, Any]:
    """Return the guesses and the facts of one network; each attacker's row is told when it is ready.

    Args:
        file: of the guest.
        phase: told what is done now.
        row: told what an attacker read.
        network: one of ``moments.NETWORKS``.
        sha256: that the file must have; empty for any.
        seed: of everything that is drawn.

    Raises:
        UserError: it cannot be judged.
    """
    phase("it was imported")
    subject = Subject.load(file, sha256)
    phase(f"it was described on the {network}")
    facts = describe(Laboratory(subject, network))
    _refuse_what_trains_nobody(file, facts)
    phase(f"it defended the {network}")
    arena = Tiny(subject, network, seed)
    phase(f"it was attacked on the {network}")
    row({"network": network, "attacker": "guess", "by": "mean images", "decibels": arena.guesses(), "labels": None})
    attackers = [
        Attacker("undefended", "annealed-map", AnnealedMap()),
        Attacker("unaware", "annealed-map", AnnealedMap()),
    ]
    for attacker in (*attackers, *by_rule(facts, network), *informed(arena, facts)):
        row(_row(arena, attacker, arena.plain if attacker.kind == "undefended" else arena.defended))
    row(_row(arena, arena.learnt(), arena.defended))
    if energy := arena.energy():
        noise = Attacker("noise", f"matched-noise, sigma {energy:.3g}", AnnealedMap(), NormalLikelihood(energy))
        row(_row(arena, noise, arena.noisy(energy)))
    subject.unchanged()
    return {"facts": [fact.text for fact in facts], "changes": energy}


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
    return {**common, "decibels": decibels, "labels": right, "seconds": time.monotonic() - began}
