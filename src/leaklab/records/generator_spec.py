"""Spec of an image generator: the prior of generative attacks."""

from pydantic import Field

from leaklab.records.record import Component, Record


class GeneratorSpec(Record):
    """A class-conditional generator, trained on the training part of a dataset or published with its weights.

    Attributes:
        dataset: its training part trains the generator and the classifier that judges it; attacked images come from
            the test part, or from another dataset.
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

    dataset: str
    model: Component = Component(name="conditional-gan")
    steps: int = Field(ge=0)
    batch_size: int = Field(default=64, gt=1)
    rate: float = Field(default=5e-4, gt=0)
    average: float = Field(default=0.999, ge=0, lt=1)
    classifier: Component = Component(name="resnet-small")
    classifier_steps: int = Field(default=300, gt=0)
    judged: int = Field(default=50, gt=0)
    seed: int = 0
