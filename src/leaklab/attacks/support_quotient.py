"""Support quotient: one sample read off a first affine layer of which a part was pruned, without a search.

What is left of the layer's update are products of a derivative and a pixel, more of them than both have unknowns; see
``first_layer/support``. A hidden rate is a factor on all of them. Without pruning it is the quotient by all units.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from leaklab.attacks.base import Attack, Case, Reconstruction
from leaklab.attacks.closed_form import NO_LABEL, read_off
from leaklab.attacks.first_layer.observed import first_layers
from leaklab.attacks.first_layer.support import completed
from leaklab.observations.declared import SAMPLES, Requirements

NAME = "support-quotient"


@dataclass(frozen=True)
class SupportQuotient:
    """Read one sample off the entries of the first layer's update that are not zero."""

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES,
        facts_if_granted=("weight_decay",),
        largest_batch=1,
        searches=False,
        first_affine=True,
        dropout=True,
    )

    def reconstruct(self, case: Case) -> Reconstruction:
        """Read every sample without spending the budget; the labels are not read.

        Raises:
            UserError: facts are withheld, the network does not begin with an affine layer, or the client keeps that to
                itself.
        """
        observation = case.observation
        layers, like = first_layers(observation, case.knowledge, NAME), next(iter(observation.update.values()))
        found = torch.from_numpy(np.stack([completed(layer) for layer in layers])).to(like)
        images = found.view(-1, 1, *case.knowledge.require("input_shape", NAME))
        return read_off(observation, images, torch.full((len(images), 1), NO_LABEL, device=images.device))


PLUGIN: type[Attack] = SupportQuotient
