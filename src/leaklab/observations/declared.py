"""What an attack or a transform asks for: a typed declaration in its class, read from its source while planning.

Every Snakemake process plans, and importing an attack imports torch. So the declaration is read where it stands
(``records/traits.py``): a call of ``Requirements`` with literals and with this module's constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from leaklab.observations.threat_models import Fact
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.traits import chosen, declaration

Facts = tuple[Fact, ...]

SAMPLES: Facts = ("architecture", "weights", "input_shape", "num_classes", "batch_size")
"""What every search for images needs: the victim, and how many samples of which shape it saw."""

SENTENCES: Facts = ("architecture", "weights", "num_classes")
"""The same for sentences; how long each is, its update says."""

PRESCRIBED_STEPS: Facts = ("nominal_rate", "local_steps")
"""What a delta is divided by."""

LAW_OF_DEFENSE: Facts = ("defense", "defense_settings", "local_steps")
"""What the likelihood of an update under its defense is made of."""

KNOWN_LABELS: Mapping[str | bool, Facts] = {
    "known": ("labels",),
    "counts": ("input_range",),
    "unmixed": ("input_range",),
    "target": ("server",),
}
"""Of a setting that says where the labels come from (``attacks/labels/rules.py``)."""


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What a plug-in asks for; its ``requirements: ClassVar[Requirements]``.

    Attributes:
        facts: what the threat model has to grant in any case.
        facts_when: setting -> its value -> what it has to grant besides.
        facts_when_set: setting -> what it has to grant besides where the setting is not its default.
        facts_for_delta: what it has to grant besides where the observation is a delta.
        facts_if_granted: what the plug-in does without, and uses where it is granted.
        fits: defenses that a transform is made for; empty for all. Who chooses such a transform knows the defense.
        unfit: of a transform that fits all others, defense -> why it does not fit that one.
        largest_batch: samples of an update at most; None for any number.
        most_steps: local steps of an update at most; None for any number.
        generator: whether the spec has to name a generator, which is a fact too.
        law: whether the spec has to name a law of the defense that was learnt.
        searches: False for an attack that evaluates no matching loss.
        first_affine: whether the network has to begin with an affine layer with a bias.
        several_batches: whether it searches the batches of all local steps, its setting ``samples`` saying how many
            samples that makes.
        tells_apart: whether that layer has to have as many units as there are samples.
        single_when: setting -> values with which it reads one sample alone.
        optimizers: those whose updates it can read; a step of others is no gradient.
        batch_statistics: whether it follows a client whose batch normalisations use the batch.
        dropout: whether it does without the client's dropout masks, which nobody sends.
        decoders: of attacks on text, whether they read models in which a token sees only those before it.
        frozen_embeddings: of attacks on text, whether they do without the gradients of the tables of words and places.
    """

    facts: Facts = ()
    facts_when: Mapping[str, Mapping[str | bool, Facts]] = field(default_factory=dict)
    facts_when_set: Mapping[str, Facts] = field(default_factory=dict)
    facts_for_delta: Facts = ()
    facts_if_granted: Facts = ()
    fits: tuple[str, ...] = ()
    unfit: Mapping[str, str] = field(default_factory=dict)
    largest_batch: int | None = None
    most_steps: int | None = None
    generator: bool = False
    law: bool = False
    searches: bool = True
    first_affine: bool = False
    several_batches: bool = False
    tells_apart: bool = False
    single_when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optimizers: tuple[str, ...] = ("sgd",)
    batch_statistics: bool = False
    dropout: bool = False
    decoders: bool = False
    frozen_embeddings: bool = False


CONSTANTS = {
    "SAMPLES": SAMPLES,
    "SENTENCES": SENTENCES,
    "PRESCRIBED_STEPS": PRESCRIBED_STEPS,
    "LAW_OF_DEFENSE": LAW_OF_DEFENSE,
    "KNOWN_LABELS": KNOWN_LABELS,
}


@cache
def declared(room: str, name: str) -> Requirements:
    """Return what plug-in ``name`` of ``room`` asks for; imports no torch.

    Raises:
        UserError: there is no such plug-in, or it declares nothing that can be read.
    """
    plugins.check(room, name, {})
    found = declaration(room, name, "requirements", Requirements, CONSTANTS)
    if found is None:
        raise UserError(
            f"{room} plug-in '{name}' declares no readable requirements (there are none): write 'requirements: "
            f"ClassVar[Requirements] = Requirements(...)' with literals or {', '.join(CONSTANTS)}"
        )
    return found


def is_default(room: str, name: str, settings: Mapping[str, Any], setting: str) -> bool:
    """Tell whether ``settings`` leave a setting as the plug-in's class has it."""
    return setting not in settings or bool(settings[setting] == chosen(room, name, {}, setting))
