"""Images of noise, by which an attacker without public images measures what a network predicts."""

from torch import Tensor

from leaklab.observations.base import Knowledge, Observation
from leaklab.records.streams import stream

NOISE_IMAGES = 300


def noise_images(observation: Observation, knowledge: Knowledge, attack: str) -> Tensor:
    """Return images [N, C, H, W] of uniform noise, as the victim takes them, always the same."""
    low, high = knowledge.require("input_range", attack)
    shape = NOISE_IMAGES, *knowledge.require("input_shape", attack)
    drawn = stream(0, "noise images").uniform(*shape).to(next(iter(observation.update.values())))
    images: Tensor = low + (high - low) * drawn
    return images
