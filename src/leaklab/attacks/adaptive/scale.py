"""Closed form of a hidden factor on the gradient of one sample: it undoes a perturbed learning rate exactly.

An observation o = s g of one sample, cross-entropy and an affine head (W, b) on features h gives
``h = (dW)_j / (db)_j`` for any class j: a ratio, free of s. So the attacker computes the prediction
p = softmax(W h + b) that the client saw, and the true db = p - e_y with y = argmin db, and s follows by least
squares: ``s = <o_b, p - e_y> / ||p - e_y||^2``.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.base import victim
from leaklab.attacks.labels.head import Head, head, layer_input, noise_images
from leaklab.attacks.labels.unmixing import HeadReader
from leaklab.attacks.matching.distances import Distance, profiled_scale
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.observations.requirements import check_most


@dataclass(frozen=True)
class ClosedFormScale:
    """Divide the update by the factor that the head's own gradient reveals; needs no knowledge of any rate.

    Exact for one local step on one sample under any defense that leaves the head's gradient as it is but for a factor;
    close for several small steps on the same sample.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=("weights", "architecture", "batch_size"),
        unfit={
            "additive-noise": "its noise is in the last layer, whose gradient has to be exact",
            "clipping-noise": "its noise is in the last layer, whose gradient has to be exact",
            "gradient-compression": "it prunes the last layer, whose gradient has to be whole",
            "soteria": "it zeroes columns of the last layer, whose gradient has to be whole",
            "hide-classifier": "it keeps the last layer back, whose gradient gives the scale away",
        },
        largest_batch=1,
    )

    @property
    def distance(self) -> Distance | None:
        """None: the attack keeps its own."""
        return None

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient without its hidden factor, and that factor relative to what the observation assumes.

        Raises:
            UserError: more than one sample per update, or no affine head with a bias.
        """
        batch = knowledge.require("batch_size", "closed-form-scale")
        check_most("transform 'closed-form-scale'", "batch_size", batch, self.requirements.largest_batch)
        scale = estimate_scale(head(observation))
        # an update of zero reveals nothing and has no factor to remove
        usable = scale.isfinite() & (scale > 0)
        scale = torch.where(usable, scale, torch.ones_like(scale))
        return observation.as_direction().scaled(1 / scale), scale.double()


def estimate_scale(observed: Head) -> Tensor:
    """Return the factor s [T] on the gradient of one sample."""
    bias = observed.bias_update
    features = layer_input(observed.weight_update, bias)
    predicted = torch.softmax(features @ observed.weight.T + observed.bias, 1)
    truth = F.one_hot(bias.argmin(1), bias.shape[1]).to(bias.dtype)
    expected = predicted - truth
    return (bias * expected).sum(1) / (expected * expected).sum(1)


# Profiled scale: the matching loss asks for the direction of the gradient only, so a hidden factor is no secret.


@dataclass(frozen=True)
class ProfiledScale:
    """Minimise min over s of ||o - s g'||^2 / ||o||^2; works for any batch size and needs no knowledge of any rate.

    It fits every defense: where none hides the scale it gives away a number that the server knows, and no more.

    With several local steps it removes the mean factor; what the steps' different weights do to the direction stays.
    """

    requirements: ClassVar[Requirements] = Requirements()

    @property
    def distance(self) -> Distance:
        """The profiled distance."""
        return profiled_scale

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient up to its factor, and ones: the factor is profiled out within the loss."""
        return observation.as_direction(), torch.ones(len(observation.trials), dtype=torch.float64)


# Unmixed scale: a hidden factor on the gradient of a batch, from the last layer's gradient.

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


PLUGINS = {
    "closed-form-scale": ClosedFormScale,
    "profiled-scale": ProfiledScale,
    "unmixed-scale": UnmixedScale,
}
