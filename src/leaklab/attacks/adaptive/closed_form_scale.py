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

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.head import Head, head
from leaklab.attacks.layer_input import layer_input
from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements
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


PLUGIN: type[Transform] = ClosedFormScale
