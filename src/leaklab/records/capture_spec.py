"""Spec of captured updates: what clients send in one round."""

from typing import Any, Literal

from pydantic import field_validator

from leaklab.records.bounds import Count, Positive, Rate, Real, Seed, Share
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
    count: Count
    seed: Seed = 0
    min_contrast: Share = 0.1


class CaptureSpec(Record):
    """What clients send in one round, and their secret: trials = images x draws of the defense's randomness.

    Attributes:
        rate: the server's nominal local learning rate.
        client_weight: p_k N of the client, by which scheme 1 scales its rate (LRP section 5.3 uses 2).
        kind: ``gradient`` (the update divided by the rate that the server assumes, times -1) or ``delta``.
        mode: state of the client's layers: ``eval`` (running statistics stay) or ``train`` (batch statistics).
        rate_schedule: of the nominal rate inside the round: ``constant`` or ``inverse`` (rate / t in step t, from 1).
        input_range: smallest and largest value of an input as the model gets it; the papers' GGL has [-1, 1].
        threat_model: name of the set of facts that the attacker is granted (``observations/threat_models.py``).
        draws: independent draws of the defense's randomness for each image.
    """

    dataset: str
    images: ImageChoice
    draws: Count = 1
    model: Component
    defense: Component = Component(name="none")
    local_steps: Count = 1
    batch_size: Count = 1
    rate: Rate = 0.01
    client_weight: Positive = 1.0
    kind: Literal["gradient", "delta"] = "gradient"
    mode: Literal["eval", "train"] = "eval"
    rate_schedule: Literal["constant", "inverse"] = "constant"
    input_range: tuple[Real, Real] = (0.0, 1.0)
    threat_model: str = "honest-but-curious"
    seed: Seed = 0
    dtype: Literal["float32", "float64"] = "float64"

    @field_validator("input_range")
    @classmethod
    def _ascending(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("input_range is [smallest, largest], the smallest first")
        return value

    def step_factors(self, steps: int) -> tuple[float, ...]:
        """Return the factor on the nominal rate in each of ``steps`` local steps."""
        return tuple(1.0 / step if self.rate_schedule == "inverse" else 1.0 for step in range(1, steps + 1))

    @property
    def assumed_rate(self) -> float:
        """The sum of the rates of all nominal steps, by which the server turns a delta into a gradient."""
        return self.rate * sum(self.step_factors(self.local_steps))

    def on_input_range(self, images: Any) -> Any:
        """Return images of the [0, 1] scale as the model gets them."""
        low, high = self.input_range
        return images if (low, high) == (0.0, 1.0) else low + (high - low) * images

    def on_unit_range(self, inputs: Any) -> Any:
        """Return inputs of the model on the [0, 1] scale."""
        low, high = self.input_range
        return inputs if (low, high) == (0.0, 1.0) else (inputs - low) / (high - low)
