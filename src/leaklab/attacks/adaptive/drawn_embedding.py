"""Drawn embedding: an attacker who matches the hypernetwork's gradient with an embedding and a classifier of his own.

The dummy gradient of the hypernetwork is J^T g', where g' is the extractor's at the weights that the drawn embedding
makes and J the derivative of these; only the images move. That is HyperFL's equation (8) with its unknowns replaced by
draws, the paper's attack by IG and ROG. The cosine over J^T g' is computed without forming J^T g'.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import OfOneTrial, Transform
from leaklab.attacks.hyper_message import Heads
from leaklab.attacks.hyper_observed import message_of, of_extractor
from leaklab.attacks.matching import Distance
from leaklab.attacks.private_layers import completed
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Seed
from leaklab.records.streams import stream


@dataclass(frozen=True)
class DrawnEmbedding(OfOneTrial):
    """Match the direction of the hypernetwork's gradient from a drawn embedding and behind a drawn classifier.

    Attributes:
        draw: seed of both.
    """

    name: ClassVar[str] = "drawn-embedding"
    requirements: ClassVar[Requirements] = Requirements(facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"))

    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance]:
        """Return the extractor that the drawn embedding makes, and the cosine of the hypernetwork's gradients.

        Raises:
            UserError: it is no message of linear heads, or facts are withheld.
        """
        sent, gradient = message_of(observation, knowledge, self.name)
        draws = stream(self.draw, "in place of an embedding", observation.trials[0])
        return matched_through(
            observation, knowledge, sent, gradient, draws.normal(sent.w.shape[1]).to(sent.w), self.draw, self.name
        )


def matched_through(
    observation: Observation,
    knowledge: Knowledge,
    sent: Heads,
    gradient: Heads,
    embedding: Tensor,
    draw: int,
    needed_by: str,
) -> tuple[Observation, Distance]:
    """Return the extractor of an embedding [n] behind a drawn classifier, and the cosine of J^T g' with ``gradient``.

    The update of the returned observation is J o / |o| for the observed gradient o, so that the cosine is its inner
    product with g' over |J^T g'|.
    """
    length = gradient.squared_norm().sqrt()
    unit = length if length > 0 else torch.ones_like(length)
    direction = sent.through(embedding, gradient) / unit
    weights = sent.generated(sent.hidden(embedding))
    seen = of_extractor(observation, sent, weights, direction)
    return completed(seen, knowledge, "drawn", draw, needed_by), cosine_through(sent, embedding)


def cosine_through(sent: Heads, embedding: Tensor) -> Distance:
    """Return 1 - <g', p> / |J^T g'| as a ``Distance``; a gradient of zero has no direction and counts as orthogonal."""
    hidden = sent.hidden(embedding)
    heads, inner = hidden @ hidden + 1, embedding @ embedding + 1
    # rows of A whose unit is on: the others reach neither W nor b
    reached = sent.a * (hidden > 0)

    def distance(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        flat, wanted = (torch.cat([value.flatten(1) for value in part], 1) for part in (gradients, observed))
        through = flat @ reached
        squares = heads * flat.square().sum(1) + inner * through.square().sum(1)
        some = squares > 0
        length = torch.where(some, squares, torch.ones_like(squares)).sqrt()
        product = (flat * wanted).sum(1)
        curved = heads * flat + inner * (through @ reached.T)
        residuals = (product / length**3)[:, None] * curved - wanted / length[:, None]
        sizes = [value[0].numel() for value in gradients]
        parts = [part.view_as(like) for part, like in zip(torch.split(residuals, sizes, 1), gradients, strict=True)]
        return 1 - product / length, parts, some.to(flat.dtype)

    return distance


PLUGIN: type[Transform] = DrawnEmbedding
