"""Unmixed scale: a hidden factor on the gradient of a batch, from the last layer's gradient.

``closed-form-scale`` does this for one sample. For several the features of all of them are unknowns beside the factor
(``head_unmixing``); with equal labels, too little of them is left above the rounding of float32, and the factor is that
of the counted labels (``counts``).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.base import victim
from leaklab.attacks.head import head
from leaklab.attacks.matching import Distance
from leaklab.attacks.noise_images import noise_images
from leaklab.attacks.unmixed_labels import HeadReader
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import SAMPLES, Requirements

NAME = "unmixed-scale"


@dataclass(frozen=True)
class UnmixedScale:
    """Divide the update of a batch by the factor that the head's gradient reveals; needs no knowledge of any rate.

    Labels are used where the threat model grants them, and else read off as well. Exact to rounding for one local step
    on samples of different classes; near it for several small steps, and for equal labels in an untrained network.
    Batches of more than 16 samples, or of as many as there are classes, are counted only.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"), facts_if_granted=("labels",), fits=("none", "lrp")
    )

    @property
    def distance(self) -> Distance | None:
        """None: the attack keeps its own."""
        return None

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient without its hidden factor, and that factor relative to what the observation assumes.

        Raises:
            UserError: a fact is withheld, or there is no affine head with a bias.
        """
        direction = observation.as_direction()
        batch = int(knowledge.require("batch_size", NAME))
        images = noise_images(direction, knowledge, NAME)
        reader = HeadReader(victim(direction, knowledge, NAME), head(direction), images, batch)
        granted = knowledge.require("labels", NAME) if knowledge.knows("labels") else None
        found = [
            reader.read(row) if granted is None else reader.scale_of(row, torch.tensor(granted[trial]))
            for row, trial in enumerate(observation.trials)
        ]
        scale = torch.tensor([one.scale for one in found], dtype=torch.float64)
        # an update of zero reveals nothing and has no factor to remove
        scale = torch.where(scale.isfinite() & (scale > 0), scale, 1.0)
        return direction.scaled(1 / scale.to(images.device)), scale


PLUGIN: type[Transform] = UnmixedScale
