"""Unmixed pictures: what a first affine layer shows of a round with more samples than it has units.

Which samples the pictures are of is not told: they are handed out in turn, and a metric pairs them. How near one of
them comes to a sample, and whether it comes as near to images that are not in the update, is what
``metrics/nearest_member`` and ``metrics/member_margin`` say.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from leaklab.attacks.base import Attack, Case, Reconstruction
from leaklab.attacks.closed_form import NO_LABEL, read_off
from leaklab.attacks.first_layer.observed import first_layers
from leaklab.attacks.first_layer.pictures import pictures
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.records.bounds import Natural

PICTURES = "unmixed-pictures"


@dataclass(frozen=True)
class UnmixedPictures:
    """Take pictures off the first layer, by quotients and by FastICA, whatever factors the client hides.

    Attributes:
        samples: of the client's round, where each of its local steps has a batch of its own; 0 for one batch.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES,
        facts_when_set={"samples": ("samples",)},
        facts_if_granted=("weight_decay",),
        searches=False,
        first_affine=True,
        optimizers=("sgd", "adam"),
        dropout=True,
        several_batches=True,
    )

    samples: Natural = 0

    def reconstruct(self, case: Case) -> Reconstruction:
        """Take the pictures of every update without spending the budget; the labels are not read.

        Raises:
            UserError: facts are withheld, the network does not begin with an affine layer, the client keeps that to
                itself, or the update is zero.
        """
        observation = case.observation
        batch, *shape = case.shape(PICTURES)
        count = self.samples or batch
        found = [
            np.resize(taken, (count, taken.shape[1]))
            for taken in (
                pictures(layer, case.streams("start", trial, 0))
                for layer, trial in zip(
                    first_layers(observation, case.knowledge, PICTURES), observation.trials, strict=True
                )
            )
        ]
        like = next(iter(observation.update.values()))
        images = torch.from_numpy(np.stack(found)).to(like).view(-1, count, *shape)
        return read_off(observation, images, torch.full((len(images), count), NO_LABEL, device=images.device))


PLUGIN: type[Attack] = UnmixedPictures
