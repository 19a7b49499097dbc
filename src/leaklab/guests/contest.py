"""A guest's attack beside the attackers of the house: without a defense, and against each of the house's.

This is the process of the house, one for each network: it has the private images, puts the updates into a folder, lets
its own attackers read them, and judges what the guest's process leaves there (``exchange.py``).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from leaklab.attacks.annealed import AnnealedMap
from leaklab.defenses.base import Defense
from leaklab.guests import exchange
from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.exposure import Attacker, Exposure, Reading
from leaklab.guests.files import find
from leaklab.guests.informed import informed
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.learning import who_learnt
from leaklab.guests.maps import Fact
from leaklab.guests.moments import Ground, load
from leaklab.guests.rules import by_rule
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.observations.base import Knowledge
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.tensor_algebra import NO_ALGEBRA

UNDEFENDED = "none"
DEFENSES = ("lrp", "additive-noise", "laplace-noise", "gradient-clipping", "clipping-noise", "dp-sgd", "soteria",
            "gradient-compression", "outpost", "grad-defense")  # fmt: skip
"""Those of the house that change an update of one step, each in its own way."""
MODEL = "data-enhanced+d"
"""Threat model: public images, and which defense it is."""
GUEST, HOUSE = "guest", "house"
_WAIT_SECONDS = 0.2
Phase = Callable[[str], None]
Tell = Callable[[dict[str, Any]], None]


@dataclass
class _Own(Subject):
    """A defense of the house as one that can be called again and again.

    Attributes:
        name: of the plug-in.
    """

    name: str = UNDEFENDED

    def new(self) -> Defense:
        """Return a new object of the plug-in."""
        made: Defense = plugins.load("defenses", self.name, {})
        return made

    fresh = new


def contested(file: Path, phase: Phase, row: Tell, network: str, folder: str, arena: str = "tiny",
              arena_name: str = "", seed: int = 0) -> bool:  # fmt: skip
    """Attack all defenses by those of the house, and judge what the guest read; rows are told when they are ready.

    The cheap attackers of the house come first on all defenses, then those who learn one.

    Args:
        file: of the guest, which does not run here.
        phase: told what is done now.
        row: told what an attacker read of a defense.
        network: one of the arena's.
        folder: see ``exchange``.
        arena: see ``moments.load``.
        arena_name: the same.
        seed: of everything that is drawn.
    """
    place, found = Path(folder), dict(_defended(load(arena, arena_name), network, seed, phase))
    for name, (exposure, _) in found.items():
        _put(place, name, exposure)
    exchange.put_prior(place, cast("ClassGaussianGenerator", next(iter(found.values()))[0].generator))
    exchange.put_names(place, list(found))
    first = next(iter(found.values()))[0]
    guesses = first.guesses().scores(first.private.images)
    row({"network": network, "defenses": list(found), "attacker": "guess", "by": "mean images", "scores": guesses})
    waiting = list(found)
    for learns in (False, True):
        for name, (exposure, facts) in found.items():
            for attacker in _who(exposure, facts, network, phase, learns=learns):
                phase(f"{attacker.by} attacked {name}")
                row(_by_house(exposure, name, attacker))
            waiting = _judged(place, waiting, found, row)
    phase("it waited for the guest")
    while waiting and not exchange.ended(place):
        waiting = _judged(place, waiting, found, row)
        time.sleep(_WAIT_SECONDS)
    _judged(place, waiting, found, row)
    return True


def _defended(
    arena: Ground, network: str, seed: int, phase: Phase
) -> Iterator[tuple[str, tuple[Exposure, list[Fact]]]]:
    """Yield each defense, with what it does; first none at all."""
    for name in [UNDEFENDED, *DEFENSES]:
        phase(f"{name} was described")
        offer = plugins.find("defenses", name)
        subject = _Own(find(offer.file, offer.offered), import_module(offer.module), name=name)
        facts = [] if name == UNDEFENDED else describe(Laboratory(subject, network, arena))
        yield name, (Exposure(subject, network, seed, arena=arena), facts)


def _put(place: Path, name: str, exposure: Exposure) -> None:
    attacker = Attacker("guest", name, AnnealedMap())
    observation = exposure.case(exposure.defended, attacker, exposure.private.labels).observation
    facts = {**exposure.facts(exposure.private.labels), "defense": {"name": name, "settings": {}}}
    exchange.put(place, name, observation, Knowledge(MODEL, facts))


def _who(exposure: Exposure, facts: Sequence[Fact], network: str, phase: Phase, *, learns: bool) -> Iterator[Attacker]:
    """Yield the attackers of the house, those who learn or the others."""
    if not learns:
        yield Attacker("unaware", "annealed-map", AnnealedMap())
        yield from by_rule(exposure, facts)
        yield from informed(exposure, facts)
    elif facts:
        phase(f"it was rehearsed on the {network}")
        yield who_learnt(exposure)


def _by_house(exposure: Exposure, name: str, attacker: Attacker) -> dict[str, Any]:
    began = time.monotonic()
    common = {"network": exposure.network, "defense": name, "attacker": HOUSE, "by": attacker.by}
    try:
        reading = exposure.read(attacker, exposure.defended)
    except (UserError, *NO_ALGEBRA) as error:
        return {**common, "failed": str(error), "seconds": time.monotonic() - began}
    return {**common, **_numbers(exposure, reading), "seconds": time.monotonic() - began}


def _judged(place: Path, waiting: Sequence[str], found: dict[str, tuple[Exposure, list[Fact]]], row: Tell) -> list[str]:
    """Tell what the guest read of the defenses that it has come to; return the others."""
    left = []
    for name in waiting:
        exposure, said = found[name][0], exchange.answered(place, name)
        common = {"network": exposure.network, "defense": name, "attacker": GUEST, "by": GUEST}
        if said is None:
            left.append(name)
        elif isinstance(said, str):
            row({**common, "failed": said, "seconds": 0.0})
        else:
            reading = Reading(
                Attacker(GUEST, GUEST, AnnealedMap()), said["images"], said["labels"], exposure.arena.samples
            )
            row({**common, **_numbers(exposure, reading), "seconds": float(said["seconds"])})
    return left


def _numbers(exposure: Exposure, reading: Reading) -> dict[str, Any]:
    return {"scores": reading.scores(exposure.private.images), "labels": exposure.labels_read(reading)}
