"""The letter of an attack's threat model, from what the attack declares that it asks for.

Letters A to H are those of "SoK: Gradient Inversion Attacks in Federated Learning" (USENIX Security 2025), whose table
names them without defining each; they are read here by the attacks that stand under each letter. A letter grants what
the one before it grants. A model that grants more than an attack asks for does not make the attack a stronger one.
"""

from collections.abc import Mapping
from typing import Any

from leaklab.observations.declared import PRESCRIBED_STEPS, declared
from leaklab.observations.requirements import ATTACKS, TRANSFORMS, needs
from leaklab.observations.threat_models import Fact

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
OF_TRAINING: frozenset[Fact] = frozenset(
    {*PRESCRIBED_STEPS, "step_factors", "optimizer", "weight_decay", "algorithm", "round"}
)
KNOWS_LABELS, KNOWS_DEFENSE = "+y", "+d"
"""Marks of their own: no letter speaks of granted labels or of the defense's name and settings."""


def letter(
    attack: str,
    settings: Mapping[str, Any] | None = None,
    transform: str = "none",
    kind: str = "gradient",
    *,
    manipulated: bool = False,
) -> str:
    """Return a letter with its marks, e.g. ``C`` or ``B+y``.

    Args:
        attack: plug-in of ``attacks/``.
        settings: its settings.
        transform: plug-in of ``attacks/adaptive/``.
        kind: of the observation; who divides a delta by the rate has to know it.
        manipulated: whether the server changed what it sent.

    Raises:
        UserError: unknown names or settings.
    """
    asked = declared(TRANSFORMS, transform)
    facts = needs(attack, settings or {}) | set(asked.facts)
    facts |= set(asked.facts_for_delta) if kind == "delta" else set()
    generator = declared(ATTACKS, attack).generator
    marks = (KNOWS_LABELS if "labels" in facts else "") + (KNOWS_DEFENSE if "defense" in facts or asked.fits else "")
    if manipulated or "server" in facts:
        return ("G" if generator else "F") + marks
    return ("D" if generator else "C" if facts & OF_TRAINING else "B") + marks
