"""Linear heads: what a hypernetwork's clients send holds the extractor's gradient and weights, exactly.

See ``hyper_observed``. Neither embedding nor classifier is asked for.

Source: not in the HyperFL paper; it follows from its section 3.2 (linear heads), and contradicts section 4.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import OfOneTrial
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.matching.steps import mean_gradient
from leaklab.attacks.private_parts.heads import Filling, completed
from leaklab.attacks.private_parts.hypernetwork import Heads, LowerLevel, extractor, message_of, of_extractor
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Rate, Seed
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


@dataclass(frozen=True)
class LinearHeads(OfOneTrial):
    """Read the extractor's gradient and weights off the message, and put a classifier behind it.

    Attributes:
        classifier: see ``private_layers``; ``fitted`` takes one sample, and is exact for one step.
        draw: seed of what is drawn.
    """

    name: ClassVar[str] = "linear-heads"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"),
    )

    classifier: Filling = "fitted"
    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the extractor's gradient at its weights.

        Raises:
            UserError: it is no message of linear heads, facts are withheld, the update is zero, or the classifier
                cannot be fitted.
        """
        read = extractor(observation, knowledge, self.name)
        return completed(read, knowledge, self.classifier, self.draw, self.name), None


# Drawn embedding: an attacker who matches the hypernetwork's gradient with an embedding and a classifier of his own.


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


# Two levels: the attack that HyperFL tailors to itself, which finds embedding and generated weights before images.


@dataclass(frozen=True)
class TwoLevel(OfOneTrial):
    """Solve the lower level for embedding and generated weights, then leave the images to the attack.

    Attributes:
        iterations: of Adam in the lower level.
        rate: of Adam, in units of the unknowns (a gradient's entries by their root mean square, an embedding's by its
            deviation); falls by ten after 3/8, 5/8 and 7/8 of the iterations.
        classifier: of the upper level; see ``private_layers``.
        draw: seed of the start and of a drawn classifier.
    """

    name: ClassVar[str] = "two-level"
    requirements: ClassVar[Requirements] = Requirements(facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"))

    iterations: Count = 1000
    rate: Rate = 0.1
    classifier: Filling = "drawn"
    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the gradient that was found, at the weights that were found.

        Raises:
            UserError: it is no message of linear heads, facts are withheld, or the lower level diverged.
        """
        sent, gradient = message_of(observation, knowledge, self.name)
        if not gradient.c.any():
            raise UserError(f"transform '{self.name}': the update is zero, so there is nothing to match: capture again")
        lower = LowerLevel(sent, [gradient])
        draws = stream(self.draw, "in place of an embedding", observation.trials[0])
        embedding = draws.normal(sent.w.shape[1])
        start = torch.cat([draws.normal(len(sent.c)), embedding]).to(sent.c)
        settings = SignedAdamSettings(self.iterations, 1, self.rate, box=None, signed=False)
        found = signed_adam(lower, lambda row, number: start, 1, settings)
        if not found.losses.isfinite().all():
            raise UserError(f"transform '{self.name}' diverged: lower its rate")
        slopes, embeddings = lower.unpack(found.points[:, 0], torch.zeros(1, dtype=torch.int64, device=sent.c.device))
        weights = sent.generated(sent.hidden(embeddings[0]))
        seen = of_extractor(observation, sent, weights, slopes[0])
        return completed(seen, knowledge, self.classifier, self.draw, self.name), None


# Private classifier: the client shares its extractor alone, so the attacker puts a classifier of its own behind it.


@dataclass(frozen=True)
class PrivateClassifier(OfOneTrial):
    """Attack the extractor's gradient with a drawn or a fitted classifier; see ``private_layers``.

    Several steps count as one step with their weighted mean gradient, momentum and decay undone.

    Attributes:
        classifier: ``drawn`` from the law of first weights, as the papers' attacker does, or ``fitted`` to the gradient
            of one sample, which is exact without noise.
        draw: seed of what is drawn.
    """

    name: ClassVar[str] = "private-classifier"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"),
    )

    classifier: Filling = "fitted"
    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the extractor's gradient with a whole network.

        Raises:
            UserError: facts are withheld, or the classifier cannot be fitted.
        """
        gradient = mean_gradient(observation, knowledge, self.name)
        return completed(gradient, knowledge, self.classifier, self.draw, self.name), None


PLUGINS = {
    "drawn-embedding": DrawnEmbedding,
    "linear-heads": LinearHeads,
    "private-classifier": PrivateClassifier,
    "two-level": TwoLevel,
}
