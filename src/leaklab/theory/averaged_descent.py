"""Federated averaging with fixed or perturbed rates as the convergence proof writes it, all repeats at once.

Source: LRP appendix A, eqs. (15), (16): every client steps in every step; in each E-th step all take the mean of K
clients drawn without replacement. (Those who are not drawn step in vain, which changes nothing for the others.)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.records.streams import stream
from leaklab.theory.base import Track
from leaklab.theory.ridge_softmax import RidgeSoftmax


@dataclass(frozen=True)
class Plan:
    """How the clients train.

    Attributes:
        participants: K.
        local_steps: E.
        perturbed: rates from U(0, 2 eta_t), one draw per client and step; else eta_t.
        steps: T, number of the last step; the first is 1.
        repeats: independent repetitions R.
        rate: t -> eta_t.
    """

    participants: int
    local_steps: int
    perturbed: bool
    steps: int
    repeats: int
    rate: Callable[[int], float]


@dataclass(frozen=True)
class Draws:
    """All random numbers of R repetitions over T steps; settings share them, and more steps only add to them.

    Attributes:
        start: [R, 1, d, C], the weights W_1.
        samples: int64, [R, T, N], the sample of each step.
        factors: [R, T, N], rate over its mean, from U[0, 2).
        order: int64, [R, T, N], the clients in random order; the first K take part.
    """

    start: Tensor
    samples: Tensor
    factors: Tensor
    order: Tensor


@dataclass(frozen=True)
class Trajectory:
    """What was seen on the way.

    Attributes:
        means: called with t and the mean weights of step t in each repetition; what it returned, [T, R].
        start: [R, 1, d, C], the weights W_1.
        gradient_square: largest mean square of a sample's gradient, over clients, steps and repetitions.
        variances: [N], largest variance of a sample's gradient, over steps and repetitions.
    """

    means: Tensor
    start: Tensor
    gradient_square: float
    variances: Tensor


def draw(seed: int, problem: RidgeSoftmax, steps: int, repeats: int) -> Draws:
    """Return the random numbers, a stream per repetition and purpose; W_1 has standard normal entries."""
    clients, samples, features = problem.features.shape

    def each(purpose: str, make: Callable[..., Tensor]) -> Tensor:
        return torch.stack([make(stream(seed, "descent", repeat, purpose)) for repeat in range(repeats)])

    return Draws(
        start=each("start", lambda s: s.normal(1, features, problem.labels.shape[-1])),
        samples=each("samples", lambda s: s.integers(0, samples, steps, clients)),
        factors=each("rates", lambda s: 2 * s.uniform(steps, clients)),
        order=each("participants", lambda s: s.uniform(steps, clients).argsort(-1)),
    )


def descend(
    problem: RidgeSoftmax, plan: Plan, draws: Draws, watch: Callable[[Tensor], Tensor], track: Track, label: str
) -> Trajectory:
    """Train and watch.

    Args:
        problem: N clients.
        plan: how they train.
        draws: as from ``draw``.
        watch: mean weights [R, 1, d, C] -> [R], called in every step.
        track: wraps the loop.
        label: shown by it.
    """
    clients = len(problem.features)
    weights = draws.start.expand(-1, clients, -1, -1)
    seen, largest, variances = [], 0.0, torch.zeros(clients, dtype=torch.float64)
    for step in track(range(1, plan.steps + 1), plan.steps, label):
        seen.append(watch(weights.mean(1, keepdim=True)))
        logits = problem.features @ weights
        residuals = problem.residuals(logits)
        squares = problem.gradient_squares(logits, residuals, weights)
        exact = problem.mean_gradients(residuals, weights).square().sum((-2, -1))
        largest = max(largest, float(squares.max()))
        variances = torch.maximum(variances, (squares - exact).amax(0))
        slopes = problem.sample_gradients(residuals, weights, draws.samples[:, step - 1])
        factors = draws.factors[:, step - 1] if plan.perturbed else torch.ones(clients, dtype=torch.float64)
        weights = weights - plan.rate(step) * factors[..., None, None] * slopes
        if (step + 1) % plan.local_steps == 0:
            weights = _mean_of(weights, draws.order[:, step - 1, : plan.participants])
    return Trajectory(torch.stack(seen), draws.start, largest, variances)


def _mean_of(weights: Tensor, chosen: Tensor) -> Tensor:
    """Return [R, N, d, C]: all clients get the mean of the chosen ones, int64 [R, K]."""
    repeats = torch.arange(len(weights)).unsqueeze(1)
    return weights[repeats, chosen].mean(1, keepdim=True).expand_as(weights)
