"""What each attack of an item has to know: the letter of its threat model, on the item's page."""

from collections.abc import Iterable
from dataclasses import dataclass

from leaklab.planning.threat_letters import LETTERS, letter
from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.expand import PlannedRun
from leaklab.records.landscape_spec import LandscapeSpec
from leaklab.report.site.words import ATTACKERS

NO_TRANSFORM = "none"


@dataclass(frozen=True)
class ThreatModel:
    """An attack with the letter that its facts add up to.

    Attributes:
        attack: plug-in of ``attacks/``.
        transform: plug-in of ``attacks/adaptive/``; empty for none.
        attackers: whose it is: ``paper``, ``blind`` or ``knowing``, in that order; empty where an item names none.
        letter: ``A`` to ``H``, with ``+y`` for granted labels and ``+d`` for knowing the defense.
        has: what the letter stands for.
    """

    attack: str
    transform: str
    attackers: tuple[str, ...]
    letter: str
    has: str


def threat_models(runs: Iterable[PlannedRun]) -> tuple[ThreatModel, ...]:
    """Return the attacks on images among an item's runs, each once with each letter, the weakest letter first."""
    whose: dict[tuple[str, str, str], set[str]] = {}
    for run in runs:
        if isinstance(run.spec, ScoreSpec | LandscapeSpec):
            attack = run.spec.attack
            transform = "" if attack.transform.name == NO_TRANSFORM else attack.transform.name
            whose.setdefault((_letter_of(attack), attack.attack.name, transform), set()).add(run.attacker)
    return tuple(
        ThreatModel(attack, transform, tuple(name for name in ATTACKERS if name in found), letters, LETTERS[letters[0]])
        for (letters, attack, transform), found in sorted(whose.items())
    )


def _letter_of(attack: AttackSpec) -> str:
    """Return the letter of what an attack asks for, given the kind of update and the server of its capture."""
    return letter(
        attack.attack.name,
        attack.attack.settings,
        attack.transform.name,
        attack.capture.kind,
        manipulated=attack.capture.server is not None,
    )
