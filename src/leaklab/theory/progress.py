"""LRP lemma 1: what a step of the clients' mean brings towards the optimum, at single points and at the worst of all.

With W the clients' mean, G the mean of their gradients, each at its own weights, and any point of all weights

    |W - W* - eta G|^2 <= (1 - eta mu) |W - W*|^2 + 6 L eta^2 Gamma + 2 sum_k p_k |W - W_k|^2.

The lemma is this in the mean, with what the mean step varies added to both sides.
"""

import torch
from torch import Tensor

from leaklab.records.streams import stream
from leaklab.theory.shares import MeanRidge, drawn_shares
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
