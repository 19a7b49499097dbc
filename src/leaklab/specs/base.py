"""What a run is, and what it knows of itself: its stage and rule, its name, what it needs, loads and is told.

A spec is typed and frozen. It holds everything that decides a result and nothing else: no paths, no devices, no chunk
sizes. Its canonical JSON is the run's identity (``run_id``), so a new field reruns that stage and those behind it only.
A new stage is one such class, named in ``stages.py``, with the step and the rule that it says. What runs cost is told
by ``planning``, where a new measurement reruns nothing.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from leaklab.records import plugins
from leaklab.records.bounds import Count, Positive, Rate, Seed
from leaklab.records.errors import UserError
from leaklab.records.record import Component, Plugin, Record, canonical_json
from leaklab.records.traits import metric_traits, model_traits

Code = tuple[tuple[str, str], ...]
"""Room and name of each plug-in."""


class Spec(Record):
    """One run.

    Attributes:
        stage: folder of its runs below ``results/runs``.
        rule: of the workflow, which has the name of the step that it calls.
        called: what can be read of a run's name, with fields in braces: ``{dataset}-{model.name}``.
        rooms: field -> room of the plug-in that it names.
        block: what a block of an item calls such runs (``stage:``); empty for those that others need only.
        observed: folder of what the server sees, below ``results/runs``; empty for what is no capture.
        withheld: field that its job is not told, as the job must not know more of it than an observation says.
    """

    stage: ClassVar[str]
    rule: ClassVar[str]
    called: ClassVar[str]
    rooms: ClassVar[Mapping[str, str]] = {}
    block: ClassVar[str] = ""
    observed: ClassVar[str] = ""
    withheld: ClassVar[str] = ""

    def slug(self) -> str:
        """Return what can be read of its name."""
        return self.called.format_map(vars(self))

    def needs(self) -> tuple["Spec", ...]:
        """Return the runs whose files it reads."""
        return ()

    def told(self) -> Record:
        """Return what its job is told."""
        return self

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the plug-ins that it names and its job loads."""
        named = ((getattr(self, field), room) for field, room in self.rooms.items())
        return tuple(one.in_room(room) for one, room in named if one is not None)

    def executed_plugins(self) -> Code:
        """Return the plug-ins whose code its job executes: those that it names, and others by their side."""
        return tuple((room, name) for room, name, _ in self.plugins())

    def loadable_plugins(self) -> Code:
        """Return those of which its job may load some by names that only its plug-ins tell."""
        return ()

    def misfit(self) -> str:
        """Return why its plug-ins do not go together; empty where they do."""
        return ""

    @property
    def own_dataset(self) -> str:
        """The data set that it names itself; below ``text/`` where it holds sentences; empty for none."""
        return str(getattr(self, "dataset", ""))

    @property
    def read_dataset(self) -> str:
        """The data set whose prepared file its job reads; empty for none."""
        return self.own_dataset

    def datasets(self) -> frozenset[str]:
        """Return every data set that it rests on."""
        own = frozenset(filter(None, [self.own_dataset]))
        return own.union(*(needed.datasets() for needed in self.needs()))

    @property
    def own_weights(self) -> tuple[str, ...]:
        """Published weights that it names itself, by their keys; plug-ins may have others."""
        return ()

    @property
    def tried(self) -> "AttackOn | None":
        """The attack whose findings it holds against the truth; None where it does not."""
        return None

    @property
    def own_keys(self) -> dict[str, Any]:
        """What the lines that a table has of it add to the fields of its block, by key, as in the first of them."""
        return {}

    def parts(self) -> Iterator["Spec"]:
        """Yield the specs that stand in its fields, the innermost first, and itself."""
        for name in type(self).model_fields:
            if isinstance(part := getattr(self, name), Spec):
                yield from part.parts()
        yield self

    def check_plugins(self, where: str) -> None:
        """Refuse an unknown plug-in or setting of any of its parts; ``where`` is the place in the user's file.

        Raises:
            UserError: with that place and what is known.
        """
        try:
            for part in self.parts():
                for room, name, settings in part.plugins():
                    plugins.check(room, name, settings)
                if reason := part.misfit():
                    raise UserError(reason)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None

    @classmethod
    def parts_of_block(cls) -> tuple[type["Spec"], ...]:
        """Return to which specs the fields of a block belong, which is flat: the innermost first, this one last."""
        return (cls,)


class CapturedRound(Spec):
    """A client's round as the server sees it: what captures of images and of sentences have in common.

    Trials = groups of private samples x draws of the defense's randomness.

    Attributes:
        dataset: key of ``config/datasets.yaml`` or ``config/texts.yaml``.
        draws: independent draws of the defense's randomness for each group.
        rate: the server's nominal local learning rate.
        client_weight: p_k N of the client, by which scheme 1 scales its rate (LRP section 5.3 uses 2).
        kind: ``gradient`` (the update divided by the rate that the server assumes, times -1) or ``delta``.
        rounds: how often the client did this round, from the same weights on the same samples and with fresh
            randomness of its defense; the server keeps the mean of what it saw.
        threat_model: name of the set of facts that the attacker is granted (``observations/threat_models.py``).
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"rounds"})
    called: ClassVar[str] = "{dataset}-{model.name}-{defense.name}"

    dataset: str
    draws: Count = 1
    model: Component
    defense: Component = Component(name="none")
    local_steps: Count = 1
    rate: Rate = 0.01
    client_weight: Positive = 1.0
    kind: Literal["gradient", "delta"] = "gradient"
    rounds: Count = 1
    threat_model: str = "honest-but-curious"
    seed: Seed = 0

    def executed_plugins(self) -> Code:
        """Return those that it names, and no defense, against which its update is held."""
        return *super().executed_plugins(), ("defenses", "none")

    @property
    @abstractmethod
    def trials(self) -> int:
        """How many updates it holds, each attacked on its own."""

    @property
    def manipulated(self) -> bool:
        """Whether the server sends weights of its own making."""
        return False

    def step_factors(self, steps: int) -> tuple[float, ...]:
        """Return the factor on the nominal rate in each of ``steps`` local steps."""
        return (1.0,) * steps


class AttackOn(Spec):
    """An attack on all trials of a capture: what attacks on images and on sentences have in common.

    Its ``rooms`` are those of the attack itself and of what it uses against a defense.
    """

    withheld: ClassVar[str] = "capture"

    attack: Component
    capture: CapturedRound

    def tools(self) -> tuple[Plugin, ...]:
        """Return the attack itself, and what it uses against a defense, if anything."""
        return super().plugins()

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the attacked model and the tools."""
        return self.capture.model.in_room(self.capture.rooms["model"]), *self.tools()

    @property
    def adaptive(self) -> str:
        """Name of the transform by which the attack is made to know the defense; empty for none."""
        return ""

    @property
    @abstractmethod
    def printed(self) -> bool:
        """Whether it is the attack of a paper, unless its block says otherwise."""

    @property
    def public_data(self) -> str:
        """What it brings along that was made from data of others, in words; empty for nothing."""
        return ""

    def needs(self) -> tuple[Spec, ...]:
        """Return the runs whose files it reads."""
        return (self.capture,)


class Judged(Spec):
    """An attack's findings beside the truth: what scores and landscapes have in common."""

    attack: AttackOn

    @property
    def tried(self) -> AttackOn:
        """The attack whose findings it holds against the truth."""
        return self.attack

    def slug(self) -> str:
        """Return that of the attack."""
        return self.attack.slug()

    @property
    def read_dataset(self) -> str:
        """That of the private samples."""
        return self.attack.capture.own_dataset

    def needs(self) -> tuple[Spec, ...]:
        """Return the runs whose files it reads."""
        return self.attack.capture, self.attack

    @classmethod
    def parts_of_block(cls) -> tuple[type[Spec], ...]:
        """Return capture, attack and itself: a block has the fields of all three."""
        attack: Any = cls.model_fields["attack"].annotation
        return attack.model_fields["capture"].annotation, attack, cls


# Run ids: a readable slug and a hash of the spec's canonical JSON.

RUNS = Path("results/runs")
HASH_LENGTH = 8


def run_id(spec: Spec) -> str:
    """Return ``<slug>-<hash8>``."""
    digest = hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:HASH_LENGTH]
    return f"{spec.slug()}-{digest}"


def run_folder(spec: Spec) -> Path:
    """Return the run's folder, relative to the project root."""
    return RUNS / spec.stage / run_id(spec)


# What specs ask of plug-ins that they name, read from their source; imports no torch.


def reads_the_update(metric: str) -> bool:
    """Tell whether a metric needs what the server saw and the attack's generator, besides images.

    Raises:
        UserError: there is no such metric.
    """
    return metric_traits(metric).reads_the_update


def has_frozen_part(model: str) -> bool:
    """Tell whether a model has a frozen part, which a backbone fills."""
    return model_traits(model).has_frozen_part
