"""Spec of an image generator: the prior of generative attacks."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from leaklab.records.bounds import Count, Natural, PartShare, Rate, Seed
from leaklab.records.record import Component
from leaklab.specs.base import Spec

GENERATORS = "models/generators"


class GeneratorSpec(Spec):
    """A class-conditional generator, trained on a part of a dataset or published with its weights.

    Attributes:
        dataset: one part of it trains the generator and the classifier that judges it; attacked images come from
            the other one, or from another dataset.
        split: that part: ``train``, or ``test`` where clients that hold the training part are attacked.
        model: plug-in of ``models/generators``.
        steps: one update of the generator and one of its discriminator each; 0 for published weights.
        batch_size: real images, and as many generated ones, per step.
        rate: Adam's rate, of both networks.
        average: weight of the past in the running average of the generator's weights.
        classifier: plug-in of ``models`` that tells how many generated images show their class.
        classifier_steps: batches of 64 on which it is trained.
        judged: generated images per class that are shown to it.
        seed: of initial weights, batches, latents and the classifier.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"split"})
    stage: ClassVar[str] = "generator"
    rule: ClassVar[str] = "train_generator"
    called: ClassVar[str] = "{dataset}-{model.name}"
    rooms: ClassVar[Mapping[str, str]] = {"model": GENERATORS, "classifier": "models"}

    dataset: str
    split: Literal["train", "test"] = "train"
    model: Component = Component(name="conditional-gan")
    steps: Natural
    batch_size: Count = Field(default=64, gt=1)
    rate: Rate = 5e-4
    average: PartShare = 0.999
    classifier: Component = Component(name="resnet-small")
    classifier_steps: Count = 300
    judged: Count = 50
    seed: Seed = 0

    @property
    def made_from(self) -> str:
        """What it was made from, in words, e.g. ``train part of mnist``."""
        if not self.steps:
            return f"published weights of {self.model.name}"
        if few := self.model.settings.get("per_class"):
            return f"{few} images a class of the {self.split} part of {self.dataset}"
        left_out = ", without what attacked clients hold" if self.model.settings.get("attacked") else ""
        return f"{self.split} part of {self.dataset}{left_out}"
