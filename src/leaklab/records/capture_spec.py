"""Spec of captured updates: what clients send in one round."""

from typing import Literal

from pydantic import Field

from leaklab.records.record import Component, Record


class ImageChoice(Record):
    """Which private images a client holds: ``count`` images drawn without replacement by ``seed``.

    Attributes:
        split: ``train`` or ``test`` part of the dataset.
        count: number of images.
        seed: seed of the draw.
        min_contrast: images whose pixels deviate less (standard deviation within a channel, [0, 1] scale) are
            passed over: a nearly black image has a small error whatever is guessed.
    """

    split: Literal["train", "test"] = "test"
    count: int = Field(gt=0)
    seed: int = 0
    min_contrast: float = 0.1


class CaptureSpec(Record):
    """What clients send in one round, and their secret: trials = images x draws of the defense's randomness.

    Attributes:
        rate: the server's nominal local learning rate.
        client_weight: p_k N of the client, by which scheme 1 scales its rate (LRP section 5.3 uses 2).
        kind: ``gradient`` (the update divided by the rate that the server assumes, times -1) or ``delta``.
        threat_model: name of the set of facts that the attacker is granted (``observations/threat_models.py``).
        draws: independent draws of the defense's randomness for each image.
    """

    dataset: str
    images: ImageChoice
    draws: int = Field(default=1, gt=0)
    model: Component
    defense: Component = Component(name="none")
    local_steps: int = Field(default=1, gt=0)
    batch_size: int = Field(default=1, gt=0)
    rate: float = Field(default=0.01, gt=0)
    client_weight: float = Field(default=1.0, gt=0)
    kind: Literal["gradient", "delta"] = "gradient"
    threat_model: str = "honest-but-curious"
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float64"
