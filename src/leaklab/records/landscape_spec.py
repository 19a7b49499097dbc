"""Specs of a landscape: the latent that renders a private image best, and the attack's loss around it."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from leaklab.records.attack_spec import AttackSpec
from leaklab.records.bounds import Count, Distinct, NonNegative, Population, Rate, Real, Seed
from leaklab.records.capture_spec import ImageChoice
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.record import Record


def _rising(span: tuple[float, float, int]) -> tuple[float, float, int]:
    low, high, _ = span
    if not low < high:
        raise ValueError("a span is [smallest, largest, number of points], the smallest first")
    return span


Span = Annotated[tuple[Real, Real, Annotated[Count, Field(ge=2, le=10_001)]], AfterValidator(_rising)]
"""Smallest and largest value, and the number of equidistant points."""


class ProjectionSpec(Record):
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


class LandscapeSpec(Record):
    """The loss that an attack minimises, and the distance from the private image, around the attack's own latent z1.

    Attributes:
        attack: on one image an update; its transform decides the loss. Every image has a line or plane of its own.
        projection: gives z2, the other end of the line.
        alpha: along the line, 0 at z1 and 1 at z2.
        beta: across it, in units of the line's length; None for a line.
        metrics: distances from the private image.
        seed: of the direction across.
    """

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
