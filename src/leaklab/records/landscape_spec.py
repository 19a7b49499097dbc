"""Specs of a landscape: the latent that renders a private image best, and the attack's loss around it."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from leaklab.records.attack_spec import AttackSpec
from leaklab.records.bounds import Count, Distinct, NonNegative, Population, Rate, Real, Seed
from leaklab.records.capture_spec import ImageChoice
from leaklab.records.generator_spec import GENERATORS, GeneratorSpec
from leaklab.records.record import Component, Plugin
from leaklab.records.specs import Code, Judged, Spec


def _rising(span: tuple[float, float, int]) -> tuple[float, float, int]:
    low, high, _ = span
    if not low < high:
        raise ValueError("a span is [smallest, largest, number of points], the smallest first")
    return span


Span = Annotated[tuple[Real, Real, Annotated[Count, Field(ge=2, le=10_001)]], AfterValidator(_rising)]
"""Smallest and largest value, and the number of equidistant points."""


class ProjectionSpec(Spec):
    """GAN inversion of chosen images; its work is that of ``attacks/gan_inversion.py``.

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
