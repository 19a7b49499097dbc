"""LRP theorem 1, checked: the measured gap of federated averaging with perturbed rates against its bound.

The task is small enough for every constant to be known: L, mu and all optima are computed. A bound G of all gradients
does not exist for a strongly convex loss on the whole space, so G^2 and sigma_k^2 are the largest values that the
clients met on their way, over all steps and repetitions: the theorem is checked on the set where the runs stay.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leaklab.records.bounds import Count, Draws, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.convergence import VARIANCE, Constants, Plan, Trajectory, corrected, descend, draw, printed, tight
from leaklab.theory.tasks import RidgeSoftmax, client, made_up, optimum, pooled

BOUNDS = {"bound_printed": printed, "bound_corrected": corrected, "bound_tight": tight}
DECLARED_STEPS = 100


@dataclass(frozen=True)
class ConvergenceBound:
    """Train on a made-up non-IID ridge softmax regression and compare the mean gap with three forms of the bound.

    Each client holds two neighboring classes. The rate is the theorem's with the appendix's gamma; the printed form is
    evaluated on the same runs, although its own rate lags by one step.

    Attributes:
        clients: N.
        participants: K, whose models are averaged.
        local_steps: E.
        perturbation: rates from U(0, 2 eta_t).
        steps: T.
        repeats: runs that the expectation is taken over, at least 2.
        samples: of each client.
        features: d.
        classes: C.
        ridge: mu.
        series: whether the curves are given by ``index`` too. Of an item's settings one has this, so that a claim that
            asks for the series without naming a setting gets one and the same.
    """

    clients: Count = 10
    participants: Count = 5
    local_steps: Count = 5
    perturbation: bool = True
    steps: Count = 10_000
    repeats: Count = 20
    samples: Count = 20
    features: Count = 10
    classes: Count = 5
    ridge: Positive = 0.1
    series: bool = False

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return what the run comes to, and the curves over about 100 steps, evenly spaced on a logarithmic scale.

        Numbers carry N, K, E and perturbation in their row, and T where they belong to a step.

        Raises:
            UserError: the settings do not fit each other.
        """
        return self._numbers(*self.met(seed, track))

    def met(self, seed: int, track: Track) -> tuple[Constants, NDArray[np.float64]]:
        """Return the theorem's constants as the clients met them, and the gap of every step and repetition, [T, R].

        Raises:
            UserError: the settings do not fit each other.
        """
        self._check()
        problem = made_up(seed, self.clients, self.samples, self.features, self.classes, self.ridge)
        best, lowest = optimum(pooled(problem))
        own = [optimum(client(problem, place))[1] for place in range(self.clients)]
        known = Constants(
            smoothness=problem.smoothness,
            convexity=self.ridge,
            variances=(),
            gradient_square=0.0,
            heterogeneity=lowest - float(np.mean(own)),
            start_distance=0.0,
            participants=self.participants,
            local_steps=self.local_steps,
            perturbed=self.perturbation,
        )
        way = self._descend(seed, problem, known, lowest, track)
        constants = replace(
            known,
            variances=tuple(way.variances.tolist()),
            gradient_square=way.gradient_square,
            start_distance=float((way.start - best).square().sum((-2, -1)).mean()),
        )
        return constants, way.means.numpy()

    def _check(self) -> None:
        if not 1 <= self.participants <= self.clients or self.local_steps < 1 or self.ridge <= 0:
            raise UserError("convergence-bound: needs 1 <= participants <= clients, local_steps >= 1 and ridge > 0")
        if self.repeats < 2 or self.steps < 4 or self.samples < 2 or self.classes < 2:
            raise UserError("convergence-bound: needs repeats, samples and classes of at least 2 and at least 4 steps")

    def _descend(self, seed: int, problem: RidgeSoftmax, known: Constants, lowest: float, track: Track) -> Trajectory:
        plan = Plan(self.participants, self.local_steps, self.perturbation, self.steps, self.repeats, known.rate)
        draws = draw(seed, problem, self.steps, self.repeats)
        label = f"K={self.participants} E={self.local_steps} {'U(0, 2 eta)' if self.perturbation else 'fixed rate'}"
        return descend(problem, plan, draws, lambda mean: problem.losses(mean).mean(-1) - lowest, track, label)

    def _numbers(self, constants: Constants, gaps: NDArray[np.float64]) -> Iterator[Number]:
        row = {"N": self.clients, "K": self.participants, "E": self.local_steps, "perturbation": self.perturbation}
        means, spreads = gaps.mean(1), gaps.std(1, ddof=1)
        declared = declared_steps(self.steps)
        found: dict[str, float] = {
            "kappa": constants.condition,
            "gradient_square": constants.gradient_square,
            "largest_variance": max(constants.variances),
            "heterogeneity": constants.heterogeneity,
            "start_distance": constants.start_distance,
            "gap_slope": slope_of_second_half(declared, means[declared - 1]),
        }
        every = range(1, self.steps + 1)
        for name, bound in BOUNDS.items():
            found[f"largest_gap_over_{name}"] = max(means[step - 1] / bound(constants, step) for step in every)
        found["last_gap_over_bound_corrected"] = means[-1] / corrected(constants, self.steps)
        yield from (Number(name, float(value), row) for name, value in found.items())
        yield Number("last_gap", float(means[-1]), row, std=float(spreads[-1]), n=self.repeats)
        for place, step in enumerate(declared.tolist()):
            gap = Number(
                "gap", float(means[step - 1]), {**row, "T": step}, None, float(spreads[step - 1]), self.repeats
            )
            at_step = [gap, *(Number(name, bound(constants, step), gap.row) for name, bound in BOUNDS.items())]
            yield from at_step
            if self.series:
                yield Number("step", float(step), row, place)
                yield from (replace(number, row=row, index=place) for number in at_step)


def declared_steps(last: int) -> NDArray[np.int64]:
    """Return at most 100 different steps from 1 to ``last``, evenly spaced on a logarithmic scale."""
    return np.unique(np.geomspace(1, last, DECLARED_STEPS).round().astype(np.int64))


def slope_of_second_half(steps: NDArray[np.int64], gaps: NDArray[np.float64]) -> float:
    """Return the slope of log gap over log step, by least squares, over the second half of the steps."""
    half = len(steps) // 2
    return float(np.polyfit(np.log(steps[half:]), np.log(gaps[half:]), 1)[0])


# LRP lemma 2, checked: what perturbed rates add to the variance of the clients' mean step.
#
# With rates eta_k from U(0, 2 eta), independent of the samples xi_k, and gradients g_k(xi_k) with mean G_k
#
#     E|sum_k p_k (eta_k g_k - eta G_k)|^2 = eta^2 sum_k p_k^2 (E|g_k - G_k|^2 + E|g_k|^2 / 3).
#
# The lemma bounds the two means by sigma_k^2 and G^2; its appendix has the equality.


RATE = 0.1
FEATURES, CLASSES, RIDGE = 10, 5, 0.1


@dataclass(frozen=True)
class LemmaVariance:
    """Draw samples and rates for gradients of a made-up ridge softmax regression at one random point.

    Attributes:
        clients: N, with equal weights.
        samples: of each client; xi is one of them.
        draws: Monte Carlo draws of all samples and rates.
    """

    clients: Count = 10
    samples: Count = 20
    draws: Draws = 200_000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return ``lemma2_ratio``: the drawn mean over the formula; its std is that of a single draw.

        Raises:
            UserError: fewer than two draws, or no client or sample.
        """
        if min(self.clients, self.samples) < 1 or self.draws < 2:
            raise UserError("lemma-variance: needs at least one client, one sample and two draws")
        gradients = sample_gradients(seed, self.clients, self.samples)
        ratios = squared_errors(seed, gradients, self.draws) / formula(gradients)
        return [Number("lemma2_ratio", float(ratios.mean()), std=float(ratios.std()), n=self.draws)]


def sample_gradients(seed: int, clients: int, samples: int) -> Tensor:
    """Return the gradient of every sample at a standard normal point, [N, n, P]."""
    problem = made_up(seed, clients, samples, FEATURES, CLASSES, RIDGE)
    weights = stream(seed, "lemma-variance", "point").normal(1, FEATURES, CLASSES)
    residuals = problem.residuals(problem.features @ weights)
    each = problem.features.unsqueeze(-1) * residuals.unsqueeze(-2) + RIDGE * weights
    return each.flatten(2)


def formula(gradients: Tensor) -> float:
    """Return the lemma's value for equal weights p_k = 1 / N; gradients [N, n, P]."""
    around = (gradients - gradients.mean(1, keepdim=True)).square().sum(-1).mean(1)
    whole = gradients.square().sum(-1).mean(1)
    return RATE**2 * float((around + VARIANCE * whole).sum()) / len(gradients) ** 2


def squared_errors(seed: int, gradients: Tensor, draws: int) -> Tensor:
    """Return |sum_k p_k (eta_k g_k - eta G_k)|^2 of every draw, [draws]."""
    clients, samples, _ = gradients.shape
    chosen = stream(seed, "lemma-variance", "samples").integers(0, samples, draws, clients)
    rates = 2 * RATE * stream(seed, "lemma-variance", "rates").uniform(draws, clients)
    error = torch.zeros(draws, gradients.shape[-1], dtype=torch.float64)
    for one, own in enumerate(gradients):  # one at a time: all draws of all clients would not fit
        error += (rates[:, one, None] * own[chosen[:, one]] - RATE * own.mean(0)) / clients
    return error.square().sum(-1)


# LRP lemma 4, checked: how far the mean of K of N models, drawn without replacement, is from the mean of all.


@dataclass(frozen=True)
class LemmaSampling:
    """Draw participants for models with standard normal entries.

    Attributes:
        clients: N.
        participants: K, below N: else both sides are zero.
        dimension: of each model.
        draws: Monte Carlo draws of the participants.
    """

    clients: Count = 10
    participants: Count = 5
    dimension: Count = 20
    draws: Draws = 200_000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return ``lemma4_ratio``: the drawn mean over the formula; its std is that of a single draw.

        Raises:
            UserError: not 1 <= K < N, or fewer than two draws.
        """
        if not 1 <= self.participants < self.clients or self.dimension < 1 or self.draws < 2:
            raise UserError("lemma-sampling: needs 1 <= participants < clients, a dimension and at least two draws")
        models = stream(seed, "lemma-sampling", "models").normal(self.clients, self.dimension)
        ratios = squared_sampling_errors(seed, models, self.participants, self.draws) / sampling_formula(
            models, self.participants
        )
        return [Number("lemma4_ratio", float(ratios.mean()), std=float(ratios.std()), n=self.draws)]


def sampling_formula(models: Tensor, participants: int) -> float:
    """Return the lemma's value; models [N, P]."""
    clients = len(models)
    factor = (1 - participants / clients) / (participants * (clients - 1))
    return factor * float((models - models.mean(0)).square().sum())


def squared_sampling_errors(seed: int, models: Tensor, participants: int, draws: int) -> Tensor:
    """Return |mean_S V - mean V|^2 of every draw of S, [draws]."""
    order = stream(seed, "lemma-sampling", "participants").uniform(draws, len(models)).argsort(-1)
    means = models[order[:, :participants]].mean(1)
    return (means - models.mean(0)).square().sum(-1)


PLUGINS = {
    "convergence-bound": ConvergenceBound,
    "lemma-sampling": LemmaSampling,
    "lemma-variance": LemmaVariance,
}
