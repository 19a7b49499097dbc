"""LRP lemma 1: what a step of the clients' mean brings towards the optimum, at single points and at the worst of all.

With W the clients' mean, G the mean of their gradients, each at its own weights, and any point of all weights

    |W - W* - eta G|^2 <= (1 - eta mu) |W - W*|^2 + 6 L eta^2 Gamma + 2 sum_k p_k |W - W_k|^2.

The lemma is this in the mean, with what the mean step varies added to both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.records.streams import stream
from leaklab.theory.convergence import LARGEST_SQUARE, SECOND_MOMENT, Constants
from leaklab.theory.quadratics import Course, Plan, Quadratics, descend
from leaklab.theory.shares import MeanRidge, drawn_shares, replaced
from leaklab.theory.tasks import RidgeSoftmax, client, made_up, optimum

# the largest rate that the lemma allows is this over L
LARGEST_RATE = 0.25
# a small ridge: the ratio comes no nearer to 1 than 1 - mu / (4 L)
SAMPLES, FEATURES, CLASSES, RIDGE = 20, 10, 5, 0.01


def worst_progress(curvatures: Tensor, shares: Tensor, rate: float, smoothness: float, convexity: float) -> float:
    """Return the largest ratio of the left side to the right, over all weights and minima of quadratics.

    Both sides are quadratic forms in the clients' weights and minima, the left one a square a^2; its largest ratio to a
    positive form B is a B^-1 a. Coordinates add up, so one is enough.

    Args:
        curvatures: [N].
        shares: p, [N], with sum 1.
        rate: eta, below 1 / mu.
        smoothness: L that is claimed.
        convexity: mu that is claimed.
    """
    clients = len(shares)
    weight_of, minimum_of = torch.eye(2 * clients, dtype=torch.float64).view(2, clients, -1).unbind()
    best = (shares * curvatures / (shares * curvatures).sum()) @ minimum_of
    mean = shares @ weight_of
    left = mean - best - rate * ((shares * curvatures) @ (weight_of - minimum_of))
    to_minima, to_mean = minimum_of - best, weight_of - mean
    right = (1 - rate * convexity) * torch.outer(mean - best, mean - best)
    right += 6 * smoothness * rate**2 * (to_minima.T * (shares * curvatures / 2)) @ to_minima
    right += 2 * (to_mean.T * shares) @ to_mean
    # neither side changes where all weights and minima move alike: that direction is given a form of its own
    alike = torch.ones(2 * clients, 1, dtype=torch.float64)
    return float(left @ torch.linalg.solve(right + alike @ alike.T, left))


def progress_sides(
    problem: RidgeSoftmax, shares: Tensor, weights: Tensor, best: Tensor, rate: float, heterogeneity: float
) -> tuple[Tensor, Tensor]:
    """Return both sides at M points, [M] each.

    Args:
        problem: N clients.
        shares: p, [N].
        weights: of each client at each point, [M, N, d, C].
        best: W*, [d, C].
        rate: eta.
        heterogeneity: Gamma.
    """
    p = shares[:, None, None]
    mean = (p * weights).sum(1)
    step = rate * (p * problem.gradients(weights)).sum(1)
    drift = (shares * (weights - mean.unsqueeze(1)).square().sum((-2, -1))).sum(1)
    left = (mean - best - step).square().sum((-2, -1))
    away = (mean - best).square().sum((-2, -1))
    fixed = 6 * problem.smoothness * rate**2 * heterogeneity
    return left, (1 - rate * problem.ridge) * away + fixed + 2 * drift


def softmax_progress(seed: int, clients: int, points: int) -> tuple[float, float]:
    """Return the largest ratio of the sides over drawn points of a ridge softmax regression, and 1 - eta mu.

    The rate is the largest that the lemma allows.

    Means lie from near to far off the optimum and clients from near to far off their mean; every other mean lies where
    all classes' weights moved alike, which softmax does not see, so that no curvature but mu is there.

    Args:
        seed: of all draws; shares are uneven.
        clients: N.
        points: M.
    """
    problem = made_up(seed, clients, SAMPLES, FEATURES, CLASSES, RIDGE)
    shares = drawn_shares(seed, 2, clients)[1]
    best, lowest = optimum(MeanRidge(**vars(problem), scales=clients * shares))
    own = sum(float(share) * optimum(client(problem, place))[1] for place, share in enumerate(shares))
    draws = stream(seed, "progress")
    away, apart = (10 ** (4 * draws.uniform(2, points, 1, 1, 1) - 2)).unbind()
    means = draws.normal(points, 1, FEATURES, CLASSES)
    means[::2] = means[::2, ..., :1]
    weights = best + away * means + away * apart / 100 * draws.normal(points, clients, FEATURES, CLASSES)
    rate = LARGEST_RATE / problem.smoothness
    left, right = progress_sides(problem, shares, weights, best, rate, lowest - own)
    return float((left / right).max()), 1 - rate * problem.ridge


# The steps of the proof of LRP's theorem 1 as ratios of left side to right: above 1 a step does not hold.
#
# Source: LRP appendix A, lemmas 1 and 3, eqs. (17), (18), and the induction Delta_t <= v / (gamma + t) behind them.
# Each function takes P problems at once: courses [T, P], rates [T, P], and a list of P constants.


# beta mu for rates beta / (gamma + t), as the theorem has them
THEOREM = 2.0


def progress_ratios(course: Course, rates: Tensor, constants: Sequence[Constants]) -> Tensor:
    """Return lemma 1's ratios, [T, P]."""
    smoothness, convexity = _each(constants, "smoothness"), _each(constants, "convexity")
    fixed = 6 * smoothness * rates.square() * _each(constants, "heterogeneity")
    right = (1 - rates * convexity) * course.distances[:-1] + course.noises + fixed + 2 * course.drifts
    return course.ahead / right


def drift_ratios(course: Course, rates: Tensor, constants: Sequence[Constants], *, tighter: bool = False) -> Tensor:
    """Return lemma 3's ratios, [T, P]; ``tighter``: with 16 / 3, for squared rates in the mean, in place of 16.

    E is at least 2: else both sides are zero.
    """
    factor = 4 * (SECOND_MOMENT if tighter else LARGEST_SQUARE)
    further = torch.tensor([(one.local_steps - 1) ** 2 for one in constants])
    return course.drifts / (factor * rates.square() * further * _each(constants, "gradient_square"))


def step_ratios(distances: Tensor, rates: Tensor, constants: Sequence[Constants], noises: Tensor) -> Tensor:
    """Return the ratios of eq. (17) or (18), [T, P].

    Args:
        distances: Delta_1 to Delta_{T+1}, [T + 1, P].
        rates: eta_t.
        constants: of which mu is taken.
        noises: B + C, [P] or [T, P].
    """
    return distances[1:] / ((1 - rates * _each(constants, "convexity")) * distances[:-1] + rates.square() * noises)


def induction_ratios(distances: Tensor, constants: Sequence[Constants], ceilings: Tensor) -> Tensor:
    """Return Delta_t (gamma + t) / v of t = 1, 2, ..., shape of ``distances``; ceilings v, [P]."""
    steps = torch.arange(1, len(distances) + 1, dtype=torch.float64).unsqueeze(-1)
    return distances * (_each(constants, "offset") + steps) / ceilings


def ceiling(constants: Constants, noise: float, *, factor: float = THEOREM) -> float:
    """Return v = max(beta^2 (B + C) / (beta mu - 1), (gamma + 1) Delta_1); ``factor`` is beta mu.

    The proof takes beta mu above 1. At and below it no first term helps, and only the second is left.
    """
    start = (constants.offset + 1) * constants.start_distance
    beta = factor / constants.convexity
    return max(beta**2 * noise / (factor - 1), start) if factor > 1 else start


def iterated(constants: Constants, noise: float, steps: int, *, factor: float = THEOREM) -> Tensor:
    """Return Delta_1 to Delta_T where eq. (18) is an equality, [T, 1]; ``factor`` is beta mu."""
    found = [constants.start_distance]
    for step in range(1, steps):
        rate = factor / (constants.convexity * (constants.offset + step))
        found.append((1 - rate * constants.convexity) * found[-1] + rate**2 * noise)
    return torch.tensor(found, dtype=torch.float64).unsqueeze(-1)


def _each(constants: Sequence[Constants], name: str) -> Tensor:
    return torch.tensor([getattr(one, name) for one in constants], dtype=torch.float64)


# Exact descents at the theorem's rates, with the constants that its assumptions ask for.


@dataclass(frozen=True)
class ExactDescents:
    """Descents on P problems, and what is known of each.

    Attributes:
        problem: the losses that the clients step on.
        shares: p of each problem, N numbers each.
        constants: of the losses L_k of each problem, before they are scaled; G^2 and Delta_1 are those of the descent.
        plan: how the clients trained.
        course: what was seen on the way.
    """

    problem: Quadratics
    shares: Sequence[tuple[float, ...]]
    constants: Sequence[Constants]
    plan: Plan
    course: Course


def exact_descents(
    losses: Quadratics, start: Tensor, participants: int, local_steps: int, steps: int, *, scaled: bool
) -> ExactDescents:
    """Return descents with rates of law U(0, 2 eta_t) and the appendix's eta_t.

    Args:
        losses: P problems with clients' losses L_k.
        start: W_1, [P, D].
        participants: K; below N for scaled or equal clients only.
        local_steps: E.
        steps: T.
        scaled: clients step on N p_k L_k and take the plain mean, eq. (9), at the rates for nu L and varsigma mu; else
            on L_k and take the weighted mean, eq. (16).
    """
    shares = [tuple(own) for own in losses.shares.tolist()]
    known = [_known(losses, place, participants, local_steps) for place in range(len(shares))]
    at_rates = [replaced(*both) if scaled else both[0] for both in zip(known, shares, strict=True)]
    rates = torch.tensor([[one.rate(step) for one in at_rates] for step in range(1, steps + 1)], dtype=torch.float64)
    plan = Plan(participants, local_steps, SECOND_MOMENT, rates)
    problem = losses.scaled() if scaled else losses
    course = descend(problem, plan, start)
    scales = len(shares[0]) * losses.shares if scaled else torch.ones_like(losses.shares)
    largest = (course.squares / scales.square()).amax(-1).tolist()
    constants = [
        replace(one, gradient_square=square, start_distance=distance)
        for one, square, distance in zip(known, largest, course.distances[0].tolist(), strict=True)
    ]
    return ExactDescents(problem, shares, constants, plan, course)


def _known(losses: Quadratics, place: int, participants: int, local_steps: int) -> Constants:
    return Constants(
        smoothness=float(losses.smoothness[place]),
        convexity=float(losses.convexity[place]),
        variances=tuple(losses.variances[place].tolist()),
        gradient_square=0.0,
        heterogeneity=float(losses.heterogeneity[place]),
        start_distance=0.0,
        participants=participants,
        local_steps=local_steps,
        perturbed=True,
    )
