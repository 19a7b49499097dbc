"""The message of a hypernetwork's client as it was observed, and what linear heads give away of it.

Each generated tensor is theta = A u + c, so that after one step dL/dc = dL/dtheta, and dL/dA = dL/dtheta u^T gives the
hidden units u as a quotient; theta follows from the weights that the server sent. Neither embedding nor classifier is
asked for. Several steps give the weighted mean of their gradients (``undone_steps``) and a mean u.

Source: not in the HyperFL paper; it follows from its section 3.2 (linear heads), and contradicts section 4.1.
"""

from dataclasses import replace

from torch import Tensor

from leaklab.attacks.base import blank
from leaklab.attacks.hyper_message import Heads
from leaklab.attacks.undone_steps import mean_gradient
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


def extractor(observation: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return the observation of the generated tensors in place of that of the hypernetwork, for one trial.

    Raises:
        UserError: it is no message of linear heads, facts are withheld, or the update is zero.
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
