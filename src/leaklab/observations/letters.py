"""The letter of an attack's threat model, from what the attack declares that it asks for; and whom it was made for.

Letters A to H are those of "SoK: Gradient Inversion Attacks in Federated Learning" (USENIX Security 2025), whose table
names them without defining each; they are read here by the attacks that stand under each letter. A letter grants what
the one before it grants. A model that grants more than an attack asks for does not make the attack a stronger one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leaklab.observations import requirements
from leaklab.observations.declared import declared
from leaklab.observations.requirements import needs
from leaklab.observations.threat_models import (
    KNOWS_DEFENSE,
    KNOWS_LABELS,
    OF_A_LETTER,
    PUBLIC,
    Fact,
    granted,
)
from leaklab.specs.attack import ATTACKS, TRANSFORMS, AttackSpec
from leaklab.specs.base import AttackOn
from leaklab.specs.text import TextAttackSpec

LETTERS = {
    "A": "eavesdropper: the updates, and the network with its weights",
    "B": "informed eavesdropper: the task besides, the number of samples, shape and range of inputs",
    "C": "parameter-aware: rate, local steps, schedule and batch size besides",
    "D": "data-enhanced: surrogate data, or a generator made from them, besides",
    "E": "statistical-informed: the law of the client's data besides",
    "F": "active manipulator: C, and the server changes weights or model",
    "G": "data-enhanced manipulator: D, and the same",
    "H": "active client manipulator: G, and the server chooses the clients",
}
MODEL_OF = dict(zip("BCD", OF_A_LETTER, strict=True))
"""Letter -> the threat model that grants what it stands for and no more; other letters have none."""
USED: Mapping[str, Callable[[Any], frozenset[Fact]]] = {
    AttackSpec.stage: requirements.used,
    TextAttackSpec.stage: requirements.used_by_text,
}
"""Stage of attacks -> the facts that one of them uses."""
USES_PUBLIC_DATA = "+p"
HOUSE = frozenset(
    {
        "additive-noise", "bsp", "clipping-noise", "dp-sgd", "grad-defense", "gradient-clipping",
        "gradient-compression", "hide-bn", "hide-classifier", "laplace-noise", "lrp", "lsp", "masked-sum", "none",
        "outpost", "scaled-rate", "soteria", "soteria-probes", "unbounded-rate",
    }
)  # fmt: skip
"""The defenses that come with this package. What attackers know of them is said item by item."""
_MARKED: frozenset[Fact] = frozenset({"labels", "defense", "defense_settings"})
_ACTIVE: frozenset[Fact] = frozenset({"server", "queries", "data_statistics"})


@dataclass(frozen=True, order=True)
class Letter:
    """A letter with what no letter speaks of.

    Attributes:
        name: ``A`` to ``H``.
        labels: whether labels were granted.
        defense: whether the attacker knows the defense.
        public: whether data of others are used.
    """

    name: str
    labels: bool = False
    defense: bool = False
    public: bool = False

    def __str__(self) -> str:
        marks = ((self.labels, KNOWS_LABELS), (self.defense, KNOWS_DEFENSE), (self.public, USES_PUBLIC_DATA))
        return self.name + "".join(mark for there, mark in marks if there)


def letter_of_facts(facts: Iterable[Fact], *, manipulated: bool = False) -> Letter:
    """Return the first letter that grants ``facts``, with its marks.

    Args:
        facts: that an attack uses or a threat model grants.
        manipulated: whether the server changed what it sent.
    """
    asked = frozenset(facts)
    passive = asked - _MARKED - _ACTIVE
    name = next(name for name, model in MODEL_OF.items() if passive <= granted(model))
    if manipulated or "server" in asked:
        name = "G" if asked & PUBLIC else "F"
    return Letter(name, "labels" in asked, "defense" in asked, bool(asked & PUBLIC))


def letter_of(attack: AttackOn) -> Letter:
    """Return the letter of a planned attack, with the kind of update and the server of its capture.

    Raises:
        UserError: unknown names or settings.
    """
    return letter_of_facts(USED[attack.stage](attack), manipulated=attack.capture.manipulated)


def letter(
    attack: str,
    settings: Mapping[str, Any] | None = None,
    transform: str = "none",
    kind: str = "gradient",
    *,
    manipulated: bool = False,
) -> str:
    """Return the letter of an attack on images that is not planned, with its marks: e.g. ``C`` or ``B+y``.

    Args:
        attack: plug-in of ``attacks/``.
        settings: its settings.
        transform: plug-in of ``attacks/adaptive/``.
        kind: of the observation; who divides a delta by the rate has to know it.
        manipulated: whether the server changed what it sent.

    Raises:
        UserError: unknown names or settings.
    """
    facts = needs(attack, settings or {}, ATTACKS) | needs(transform, {}, TRANSFORMS)
    facts |= frozenset(declared(TRANSFORMS, transform).facts_for_delta if kind == "delta" else ())
    return str(letter_of_facts(facts, manipulated=manipulated))


def made_for(defense: str, attacks: Iterable[AttackOn]) -> bool:
    """Tell whether one of some attacks may be called an attacker who knows the defense.

    An attack or transform that names a defense in ``fits`` was made for it. Of defenses from elsewhere no other was: a
    transform that fits all of them knows none, be it a free scale or a law that was learnt, perhaps badly
    (``benchmarks/controls.md``). Imports no torch.

    Args:
        defense: plug-in of ``defenses/``.
        attacks: that were tried on it.

    Raises:
        UserError: unknown names.
    """
    tools = (tool for attack in attacks for tool in attack.tools())
    return defense in HOUSE or any(defense in declared(room, name).fits for room, name, _ in tools)


def without_attacker(attacks: Iterable[AttackOn]) -> tuple[str, ...]:
    """Return the defenses under some attacks for which none of those tried on them was made, in alphabetical order."""
    tried: dict[str, list[AttackOn]] = {}
    for attack in attacks:
        tried.setdefault(attack.capture.defense.name, []).append(attack)
    return tuple(sorted(defense for defense, own in tried.items() if not made_for(defense, own)))
