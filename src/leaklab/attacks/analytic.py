"""Analytic recovery: of one sample, the gradient of the first affine layer is the input itself, without any search.

With y = W x + b, dl/dW = (dl/dy) x^T and dl/db = dl/dy: every row of dl/dW is a multiple of x. The multiples are known,
so the input is the least squares solution x = sum_j db_j dW_j / sum_j db_j^2. A factor on the update is in both and
cancels, and with it everything that learning rate perturbation hides of a single step.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", proposition 3.1.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.base import Attack, Budget, Reconstruction, Streams, victim
from leaklab.attacks.labels import bias_rule
from leaklab.attacks.matching import Distance
from leaklab.attacks.starts import StartRecord
from leaklab.models.normalised import unnormalised
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class AnalyticRecovery:
    """Divide the weight gradient of a first affine layer by its bias gradient; one sample per update.

    The matching loss is what the layer's weight gradient differs from the product, squared: 0 without noise. Neither
    the budget nor a transform's distance is used.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES, searches=False)

    def reconstruct(
        self,
        observation: Observation,
        knowledge: Knowledge,
        budget: Budget,
        streams: Streams,
        distance: Distance | None = None,
    ) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``.

        Raises:
            UserError: withheld facts, more than one sample, a network that begins with another layer, or a layer that
                sends no bias gradient.
        """
        network = victim(observation, knowledge, "analytic")
        shape = tuple(knowledge.require("input_shape", "analytic"))
        if (batch := knowledge.require("batch_size", "analytic")) != 1:
            raise UserError(f"analytic reads one sample per update, not {batch}: set batch_size: 1 or choose a search")
        weight, bias = _first_layer(observation.as_direction(), prod(shape))
        strength = bias.square().sum(1)
        if not bool((strength > 0).all()):
            raise UserError("the first layer sends a bias gradient of zero: choose an attack that searches")
        inputs = torch.einsum("tj,tji->ti", bias, weight) / strength[:, None]
        losses = (weight - bias[:, :, None] * inputs[:, None]).square().flatten(1).sum(1)
        images = unnormalised(network, inputs.view(-1, 1, *shape))
        return Reconstruction(
            images=images,
            labels=bias_rule(observation),
            candidates=images.unsqueeze(1).clone(),  # files hold no tensors that share memory
            candidate_losses=losses[:, None],
            starts=tuple(
                StartRecord(trial, 0, float(loss), iterations=0, evaluations=0, diverged=False, stopped="matched")
                for trial, loss in zip(observation.trials, losses, strict=True)
            ),
            scale=torch.ones(len(images), dtype=torch.float64),
        )


def _first_layer(gradient: Observation, inputs: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of the first layer's weight [T, outputs, inputs] and bias [T, outputs]."""
    first = list(gradient.weights)[:2]
    shapes = [gradient.weights[name].shape for name in first]
    affine = len(first) == 2 and len(shapes[0]) == 2 and shapes[0][1] == inputs and shapes[1] == shapes[0][:1]
    if not affine or not set(first) <= set(gradient.update):
        raise UserError("analytic reads a network that begins with an affine layer and shares it: choose a search")
    weight, bias = (gradient.update[name] for name in first)
    return weight, bias


PLUGIN: type[Attack] = AnalyticRecovery
