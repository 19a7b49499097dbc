"""The gradient in an update of several steps, momentum and weight decay undone.

With v <- mu v + (g_t + lambda W) and W <- W - rate_t v, weights are a linear function of those at the start and of the
gradients of the steps: W_E = a W_0 - sum_t k_t g_t. The numbers a and k_t depend on what the server prescribed alone,
so the weighted mean of the gradients, sum_t k_t g_t / sum_t k_t, follows from the update exactly.

Source: research on HyperFL's heads (multi-step form of the head attack); the recursion is that of ``torch.optim.SGD``.
"""

from collections.abc import Sequence
from dataclasses import replace

from leaklab.attacks.simulation import steps_of
from leaklab.observations.base import Knowledge, Observation


def coefficients(rates: Sequence[float], momentum: float, weight_decay: float) -> tuple[float, list[float]]:
    """Return a and the k_t of W_E = a W_0 - sum_t k_t g_t.

    Args:
        rates: of each of the E steps.
        momentum: mu, 0 for none.
        weight_decay: lambda.
    """
    kept, moved = 1.0, [0.0] * len(rates)
    buffer, heard = 0.0, [0.0] * len(rates)
    for step, rate in enumerate(rates):
        buffer = momentum * buffer + weight_decay * kept
        heard = [momentum * one - weight_decay * k for one, k in zip(heard, moved, strict=True)]
        heard[step] += 1.0
        kept -= rate * buffer
        moved = [k + rate * one for k, one in zip(moved, heard, strict=True)]
    return kept, moved


def mean_gradient(observation: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return the observation with the weighted mean of the steps' gradients; of one step it is the gradient itself.

    Weights of steps are positive as long as weight decay is small. What the client's own rate differs from the
    prescribed one by stays as a factor, and so does a bound on gradients' norms.

    Args:
        observation: kind gradient or delta.
        knowledge: what the threat model grants.
        needed_by: for messages.

    Raises:
        UserError: the rate or the number of steps is withheld, or the optimizer is not sgd.
    """
    gradient = observation.as_gradient(knowledge, needed_by)
    steps, rates = steps_of(knowledge, None, needed_by), knowledge.assumed_rates(needed_by)
    if steps.weight_decay == 0 and len(rates) == 1:
        return gradient
    kept, moved = coefficients(rates, steps.momentum, steps.weight_decay)
    weight, assumed = sum(moved), sum(rates)
    update = {
        name: (assumed * value + (kept - 1) * observation.sent(name)) / weight
        for name, value in gradient.update.items()
    }
    return replace(gradient, update=update)
