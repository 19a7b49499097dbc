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
from leaklab.attacks.labels.head import apart, features_of, head_features, layer_input, public_images
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.latents.scene import scene_of_case
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

SUPPORT_QUOTIENT = "support-quotient"


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
        layers, like = (
            first_layers(observation, case.knowledge, SUPPORT_QUOTIENT),
            next(iter(observation.update.values())),
        )
        found = torch.from_numpy(np.stack([completed(layer) for layer in layers])).to(like)
        images = found.view(-1, 1, *case.knowledge.require("input_shape", SUPPORT_QUOTIENT))
        return read_off(observation, images, torch.full((len(images), 1), NO_LABEL, device=images.device))


# Head lookup: the public image whose features are nearest to those in the head's update.
#
# The features follow from the head's update whatever factor a client hides (``head_features``). No picture follows from
# them without a search; but among images that are at hand the one with these features does.
#
# Source: the quotient is that of "Inverting Gradients", proposition 3.1, on the last layer; the lookup is ours.


HEAD_LOOKUP = "head-lookup"


@dataclass(frozen=True)
class HeadLookup:
    """Name the public image of an update of one sample; made for ``class-gaussian`` that keeps images."""

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range", "public_images"), largest_batch=1, generator=True, searches=False
    )

    def reconstruct(self, case: Case) -> Reconstruction:
        """Look every update up without spending the budget.

        Raises:
            UserError: facts are withheld, there is no affine head with a bias, the update is no gradient or not
                finite, or the generator keeps no images or makes others than the victim's.
        """
        scene = scene_of_case(HEAD_LOOKUP, case)
        images, labels = public_images(scene.generator, HEAD_LOOKUP)
        pool = features_of(scene.network, scene.as_inputs(images))
        chosen = apart(head_features(scene.observation), pool).argmin(1)
        return read_off(case.observation, images[chosen, None], labels[chosen, None])


PLUGINS = {
    "analytic": AnalyticReconstruction,
    "head-lookup": HeadLookup,
    "support-quotient": SupportQuotient,
}
