"""Analytic reconstruction: a network that begins with an affine layer gives its one input away, without a search.

Source: see ``layer_input``.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from leaklab.attacks.base import Case, Reconstruction, victim
from leaklab.attacks.first_layer.layer import first_layers
from leaklab.attacks.first_layer.quotient import completed
from leaklab.attacks.labels.head import layer_input
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.reconstructions import NO_LABEL, read_off
from leaklab.models.normalisation import unnormalised
from leaklab.observations.base import Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.observations.requirements import check_batch
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class AnalyticReconstruction:
    """Read the image off the first layer; exact for one sample, one local step and any factor on the update.

    Attributes:
        label_rule: see ``labels.fixed_labels``.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES, facts_when={"label_rule": KNOWN_LABELS}, largest_batch=1, searches=False, first_affine=True
    )

    label_rule: str = "bias"

    def reconstruct(self, case: Case) -> Reconstruction:
        """Read every image without spending the budget; a trial without any bias gradient is recorded as diverged.

        Raises:
            UserError: facts are withheld, there are several samples per update, or the first layer is not affine.
        """
        check_batch("analytic", case.shape("analytic")[0])
        observation, knowledge = case.observation, case.knowledge
        network = victim(observation, knowledge, "analytic")
        found = layer_input(*_first_layer(network, observation))
        images = unnormalised(network, found.view(-1, 1, *knowledge.require("input_shape", "analytic")))
        labels = fixed_labels("analytic", self.label_rule, observation, knowledge, case.distance)
        return read_off(observation, images, labels)


def _first_layer(network: nn.Sequential, observation: Observation) -> tuple[Tensor, Tensor]:
    """Return the updates of the first layer with weights, [T, O, I] and [T, O]."""
    first = next(layer for layer in network if next(layer.parameters(), None) is not None)
    weight, bias = list(observation.update)[:2]
    if not isinstance(first, nn.Linear) or weight.removesuffix("weight") != bias.removesuffix("bias"):
        raise UserError("attack 'analytic' needs a network that begins with an affine layer: choose another attack")
    return observation.update[weight], observation.update[bias]


# Support quotient: one sample read off a first affine layer of which a part was pruned, without a search.

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


PLUGINS = {
    "analytic": AnalyticReconstruction,
    "support-quotient": SupportQuotient,
}
