"""Specs of an attack on captured updates and of its scores."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from leaklab.records.bounds import Count, Distinct, NonNegative, Population, Rate, Real, Seed
from leaklab.records.plugins import available
from leaklab.records.record import Component, Plugin, Record
from leaklab.specs.base import AttackOn, Code, Judged, Spec, reads_the_update
from leaklab.specs.capture import CaptureSpec, ImageChoice
from leaklab.specs.generator import GENERATORS, GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.training import PartitionChoice, PartitionSpec

ATTACKS, TRANSFORMS = "attacks", "attacks/adaptive"
TRIALS_TOGETHER = 10
"""Trials per chunk of an attack, which are attacked together: the speed per trial is flat from here on, and a killed
job loses at most one chunk."""


class AttackerSpec(Record):
    """What the job of an attack is told of it: an ``AttackSpec`` without the capture.

    Attributes:
        transform: ``none`` for an attack that takes the update as it comes, else a defense-aware transform
            (``attacks/adaptive/``).
        iterations: largest number of outer iterations per start.
        restarts: largest number of starts; the best one is chosen by the attack's own matching loss.
        generator: prior of a generative attack, else None.
    """

    attack: Component
    transform: Component = Component(name="none")
    iterations: Count
    restarts: Count = Field(default=1, le=1000)
    generator: GeneratorSpec | None = None
    seed: Seed = 0


class AttackSpec(AttackOn, AttackerSpec):
    """One attack on all trials of a capture.

    Attributes:
        law: what is learnt by rehearsing, for a transform that learns the defense (``learnt``) or an attack that tries
            its splits before it takes them; else None.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"law"})
    stage: ClassVar[str] = "attack"
    rule: ClassVar[str] = "run_attack"
    called: ClassVar[str] = "{capture.dataset}-{attack.name}-{transform.name}-on-{capture.defense.name}"
    rooms: ClassVar[Mapping[str, str]] = {"attack": ATTACKS, "transform": TRANSFORMS}

    capture: CaptureSpec
    law: LawSpec | None = None

    @model_validator(mode="after")
    def _law_of_this_capture(self) -> "AttackSpec":
        if self.law is not None and self.law.capture != self.capture:
            raise ValueError("a law is learnt where its attack is made: leave law.capture out")
        tried = self.attack, self.transform, self.iterations
        if (
            self.law is not None
            and self.law.gate
            and tried != (self.law.attack, self.law.transform, self.law.evaluations)
        ):
            raise ValueError("what is tried is the attack itself: leave law.attack, transform and evaluations out")
        return self

    def on(self, capture: CaptureSpec) -> "AttackSpec":
        """Return the same attack on another capture; a law is learnt there too."""
        law = self.law and self.law.model_copy(update={"capture": capture})
        return self.model_copy(update={"capture": capture, "law": law})

    def told(self) -> AttackerSpec:
        """Return the spec without the capture, which names the private samples and the seeds of the clients' draws."""
        return AttackerSpec.model_validate(self.model_dump(exclude={self.withheld, "law"}))

    def needs(self) -> tuple[Spec, ...]:
        """Return the capture, and the generator and the law if there are any."""
        return *super().needs(), *filter(None, [self.generator, self.law])

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the attacked model, attack and transform, and the generator if there is one."""
        return *super().plugins(), *([self.generator.model.in_room(GENERATORS)] if self.generator else [])

    def executed_plugins(self) -> Code:
        """Return those that it names, and the defense, which an attacker who knows it executes."""
        return *super().executed_plugins(), ("defenses", self.capture.defense.name)

    @property
    def adaptive(self) -> str:
        """Name of the transform by which the attack is made to know the defense; empty for none."""
        return "" if self.transform.name == "none" else self.transform.name

    @property
    def printed(self) -> bool:
        """Whether it takes the update as it comes, as attacks of papers do."""
        return not self.adaptive

    @property
    def public_data(self) -> str:
        """What its generator was made from, in words; empty for none."""
        return self.generator.made_from if self.generator else ""


class ScoreSpec(Judged):
    """The metrics of one attack's reconstructions."""

    stage: ClassVar[str] = "score"
    rule: ClassVar[str] = "score_attack"
    block: ClassVar[str] = "attack"

    attack: AttackSpec
    metrics: Distinct[str]

    @property
    def reads_the_update(self) -> bool:
        """Whether one of its metrics needs what the server saw and the attack's generator, besides images."""
        return any(reads_the_update(name) for name in self.metrics)

    def needs(self) -> tuple[Spec, ...]:
        """Return capture and attack, and the generator if a metric reads it."""
        return (*self.attack.needs(), self.attack) if self.reads_the_update else super().needs()

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the metrics, and what capture and attack name if one of them reads the update."""
        read = (*self.attack.capture.plugins(), *self.attack.plugins()) if self.reads_the_update else ()
        return *(("metrics", name, {}) for name in self.metrics), *read


# Specs of a landscape: the latent that renders a private image best, and the attack's loss around it.


def _rising(span: tuple[float, float, int]) -> tuple[float, float, int]:
    low, high, _ = span
    if not low < high:
        raise ValueError("a span is [smallest, largest, number of points], the smallest first")
    return span


Span = Annotated[tuple[Real, Real, Annotated[Count, Field(ge=2, le=10_001)]], AfterValidator(_rising)]
"""Smallest and largest value, and the number of equidistant points."""


class ProjectionSpec(Spec):
    """GAN inversion of chosen images; its work is that of ``attacks/latents/gan_inversion.py``.

    Attributes:
        dataset: whose images are inverted, each in its own class.
        generations: of CMA-ES.
        population: candidates per generation.
        inner_steps: steps of Adam by which each candidate is judged.
        final_steps: steps of Adam on the best candidate.
        rate: Adam's rate.
        perceptual: metric plug-in of LPIPS that is minimised beside the mean squared difference; empty for none.
        perceptual_weight: its weight.
    """

    stage: ClassVar[str] = "projection"
    rule: ClassVar[str] = "project_image"
    called: ClassVar[str] = "{dataset}-{generator.model.name}"

    dataset: str
    images: ImageChoice
    generator: GeneratorSpec
    generations: Count = 30
    population: Population = 10
    inner_steps: Count = 20
    final_steps: Count = 300
    rate: Rate = 0.05
    perceptual: str = ""
    perceptual_weight: NonNegative = 1.0
    seed: Seed = 0

    def needs(self) -> tuple[Spec, ...]:
        """Return the generator."""
        return (self.generator,)

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the generator, and the metric that is minimised, if any."""
        metric = [Component(name=self.perceptual).in_room("metrics")] if self.perceptual else []
        return self.generator.model.in_room(GENERATORS), *metric


class LandscapeSpec(Judged):
    """The loss that an attack minimises, and the distance from the private image, around the attack's own latent z1.

    Attributes:
        attack: on one image an update; its transform decides the loss. Every image has a line or plane of its own.
        projection: gives z2, the other end of the line.
        alpha: along the line, 0 at z1 and 1 at z2.
        beta: across it, in units of the line's length; None for a line.
        metrics: distances from the private image.
        seed: of the direction across.
    """

    stage: ClassVar[str] = "landscape"
    rule: ClassVar[str] = "map_landscape"
    block: ClassVar[str] = "landscape"

    attack: AttackSpec
    projection: ProjectionSpec
    alpha: Span = (-0.25, 1.25, 61)
    beta: Span | None = None
    metrics: Distinct[str]
    seed: Seed = 0

    @model_validator(mode="after")
    def _one_image_an_update(self) -> "LandscapeSpec":
        capture = self.attack.capture
        if (capture.draws, capture.batch_size) != (1, 1):
            raise ValueError("a landscape shows one image an update under one draw: set draws and batch_size to 1")
        return self

    def needs(self) -> tuple[Spec, ...]:
        """Return what the attack needs, the attack, and the inversion."""
        return *self.attack.needs(), self.attack, self.projection

    @property
    def read_dataset(self) -> str:
        """None: what is private stands in the truth of the capture."""
        return ""

    def plugins(self) -> tuple[Plugin, ...]:
        """Return what the attack names, and the metrics."""
        return *self.attack.plugins(), *(("metrics", name, {}) for name in self.metrics)

    def executed_plugins(self) -> Code:
        """Return those that it names, and the defense, as the attack does."""
        return *super().executed_plugins(), ("defenses", self.attack.capture.defense.name)


# Spec of a numerical check of a statement.

THEORY = "theory"
TOLD = ("models", "defenses", "federated/algorithms", "federated/optimizers", "federated/schedules")
"""Rooms of which the settings of a check name plug-ins."""


class CheckSpec(Spec):
    """A numerical check of a statement (theorem, algorithm, protocol, drawing); no model is trained on data.

    Attributes:
        check: plug-in in ``theory/``.
        dataset: with ``partition``: the check is told how many samples and classes each client of this deal has.
        seed: seed of all the check's draws.
    """

    stage: ClassVar[str] = "check"
    rule: ClassVar[str] = "check_theory"
    called: ClassVar[str] = "{check.name}"
    rooms: ClassVar[Mapping[str, str]] = {"check": THEORY}
    block: ClassVar[str] = "check"

    check: Component
    dataset: str = ""
    partition: PartitionChoice | None = None
    seed: Seed = 0

    @model_validator(mode="after")
    def _dataset_with_partition(self) -> "CheckSpec":
        if bool(self.dataset) != (self.partition is not None):
            raise ValueError("a check has either both 'dataset' and 'partition' or neither")
        return self

    def needs(self) -> tuple[Spec, ...]:
        """Return the deal that it is told, if any."""
        return (PartitionSpec(dataset=self.dataset, partition=self.partition),) if self.partition else ()

    @property
    def read_dataset(self) -> str:
        """None: it is told how much each client has."""
        return ""

    def executed_plugins(self) -> Code:
        """Return the check, and what it is told to take."""
        told = (one for one in self.loadable_plugins() if one[1] in self.check.settings.values())
        return *super().executed_plugins(), *told

    def loadable_plugins(self) -> Code:
        """Return all that a check may load by a name of its own."""
        return tuple((room, name) for room in TOLD for name in available(room))
