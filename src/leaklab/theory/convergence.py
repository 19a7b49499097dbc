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
from leaklab.theory.tasks import RidgeSoftmax


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


# The bound of theorem 1 on federated averaging with perturbed rates: as printed, as its proof gives it, and tighter.

# U(0, 2 m) has mean m, variance m^2 / 3, second moment 4 m^2 / 3 and is at most 2 m, whose square is 4 m^2
VARIANCE = 1 / 3
SECOND_MOMENT = 4 / 3
LARGEST_SQUARE = 4.0


@dataclass(frozen=True)
class Constants:
    """What the theorem assumes, and how the clients train.

    Attributes:
        smoothness: L, every client's loss is L-smooth.
        convexity: mu, every client's loss is mu-strongly convex.
        variances: sigma_k^2 of each of the N clients, bounds of the variance of its stochastic gradient.
        gradient_square: G^2, bound of the mean square of any client's stochastic gradient.
        heterogeneity: Gamma = L* - sum_k p_k L_k*, how far the clients' optima are from the common one.
        start_distance: Delta_1 = E|W_1 - W*|^2.
        participants: K of the N clients, drawn without replacement, whose models are averaged.
        local_steps: E.
        perturbed: whether rates are drawn from U(0, 2 eta_t); else they are eta_t (plain FedAvg).
    """

    smoothness: float
    convexity: float
    variances: tuple[float, ...]
    gradient_square: float
    heterogeneity: float
    start_distance: float
    participants: int
    local_steps: int
    perturbed: bool

    @property
    def condition(self) -> float:
        """Return kappa = L / mu."""
        return self.smoothness / self.convexity

    @property
    def offset(self) -> float:
        """Return gamma = max(8 kappa, E) - 1 of the appendix."""
        return max(8 * self.condition, self.local_steps) - 1

    def rate(self, step: int) -> float:
        """Return eta_t = 2 / (mu (gamma + t)) for t = 1, 2, ..., with the appendix's gamma; at most 1 / (4 L)."""
        return 2 / (self.convexity * (self.offset + step))


def printed(constants: Constants, step: int) -> float:
    """Return eq. (7) of the main text for T = ``step``.

    It mixes two ways of counting: gamma = max(8 kappa, E) is one more than the appendix's, but 1 / (gamma + T) was not
    moved along with mu gamma / 2, so the value is a little below what the proof gives. D = L |W_1 - W*|^2 is read as
    E|W_1 - W*|^2. The appendix's closing line differs again: (2 B + C) / mu with a C that holds eta_t^2, although
    eq. (18) has multiplied it by eta_t^2 already.
    """
    gamma = constants.offset + 1
    noise = _noise(constants, _factor(constants, LARGEST_SQUARE))
    start = constants.convexity * gamma / 2 * constants.start_distance
    return constants.condition / (gamma + step) * (2 * noise / constants.convexity + start)


def corrected(constants: Constants, step: int) -> float:
    """Return what the appendix's proof gives for T = ``step``: 2 (B + C) / mu, no eta_t^2 in C, one gamma throughout.

    The proof bounds each squared rate by (2 eta_t)^2, hence 32 and 16 in place of FedAvg's 8 and 4.
    """
    return _value(constants, step, _factor(constants, LARGEST_SQUARE))


def tight(constants: Constants, step: int) -> float:
    """Return the bound with the squared rates' mean, 4 / 3 eta_t^2, where the proof takes their largest value.

    Rates are independent of the gradients, so lemmas 3 and 4 need no more: 32 / 3 and 16 / 3 in place of 32 and 16.
    """
    return _value(constants, step, _factor(constants, SECOND_MOMENT))


def noise_terms(constants: Constants, *, tighter: bool = False) -> float:
    """Return B + C of eqs. (17), (18), with C as the bound needs it; ``tighter`` as in ``tight``."""
    return _noise(constants, _factor(constants, SECOND_MOMENT if tighter else LARGEST_SQUARE))


def _value(constants: Constants, step: int, factor: float) -> float:
    start = constants.convexity * (constants.offset + 1) / 2 * constants.start_distance
    noise = 2 * _noise(constants, factor) / constants.convexity
    return constants.condition / (constants.offset + step) * (noise + start)


def _factor(constants: Constants, perturbed: float) -> float:
    """Return what stands for the square of a rate over its mean; 1 for rates that are not drawn."""
    return perturbed if constants.perturbed else 1.0


def _noise(constants: Constants, factor: float) -> float:
    """Return B + C; ``factor`` 1 and no perturbation give FedAvg's own constants."""
    clients, drift = len(constants.variances), constants.local_steps - 1
    square = constants.gradient_square
    spread = VARIANCE * square if constants.perturbed else 0.0
    steps = sum(variance + spread for variance in constants.variances) / clients**2
    steps += 6 * constants.smoothness * constants.heterogeneity + 8 * factor * drift**2 * square
    left_out = (clients - constants.participants) / (clients - 1) if clients > 1 else 0.0
    return steps + left_out * 4 * factor / constants.participants * constants.local_steps**2 * square
