"""Linear heads: what a hypernetwork's clients send holds the extractor's gradient and weights, exactly.

Each generated tensor is theta = A u + c, so that after one step dL/dc = dL/dtheta, and dL/dA = dL/dtheta u^T gives the
hidden units u as a quotient; theta follows from the weights that the server sent. Neither embedding nor classifier is
asked for. Several steps give the weighted mean of their gradients (``undone_steps``) and a mean u.

Source: not in the HyperFL paper; it follows from its section 3.2 (linear heads), and contradicts section 4.1.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.adaptive.base import OfOneTrial, Transform
from leaklab.attacks.base import blank
from leaklab.attacks.hyper_message import Heads
from leaklab.attacks.matching import Distance
from leaklab.attacks.private_layers import Filling, completed
from leaklab.attacks.undone_steps import mean_gradient
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Seed
from leaklab.records.errors import UserError


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


def extractor(observation: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return the observation of the generated tensors in place of that of the hypernetwork, for one trial.

    Raises:
        UserError: see ``LinearHeads.of_trial``.
    """
    sent, gradient = message_of(observation, knowledge, needed_by)
    if not gradient.c.any():
        raise UserError(f"transform '{needed_by}': the update is zero, so nothing can be read off: capture it again")
    weights = sent.generated(hidden_units(gradient))
    return of_extractor(observation, sent, weights, gradient.c)


def hidden_units(gradient: Heads) -> Tensor:
    """Return u [H] from dL/dA = d u^T and dL/dc = d: the quotient of all rows by least squares."""
    units: Tensor = gradient.c @ gradient.a / gradient.c.square().sum()
    return units


def message_of(observation: Observation, knowledge: Knowledge, needed_by: str) -> tuple[Heads, Heads]:
    """Return the hypernetwork that was sent, and the (mean) gradient that its client sends back, for one trial.

    Raises:
        UserError: it is no such message, or facts are withheld.
    """
    order = [name for name, _ in blank(observation, knowledge, needed_by).named_parameters()]
    sent = Heads.of(observation.weights, order, needed_by)
    update = mean_gradient(observation, knowledge, needed_by).update
    return sent, Heads.of({name: value[0] for name, value in update.items()}, order, needed_by)


def of_extractor(observation: Observation, sent: Heads, weights: Tensor, slope: Tensor) -> Observation:
    """Return the observation with generated weights [P] and their gradient [P] in place of the hypernetwork's."""
    return replace(
        observation,
        weights=sent.apart(weights),
        update={name: value[None] for name, value in sent.apart(slope).items()},
        kind="gradient",
    )


PLUGIN: type[Transform] = LinearHeads
