"""Federated averaging on quadratic losses, with exact expectations in place of drawn runs.

Gradients of quadratics are linear in the weights, so means and mean products of all clients' weights follow one another
without any draw; of the law of the rates only the second moment enters. The coordinates do not mix.

Axes: P problems at once, D coordinates, N clients. Source: LRP appendix A, eqs. (15), (16).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.records.streams import stream


@dataclass(frozen=True)
class Quadratics:
    """The losses L_k(w) = sum over coordinates of h_k w^2 / 2 - r_k w, with stochastic gradients h_k w - r_k + noise.

    Attributes:
        curvatures: h, float64, [P, D, N], above 0.
        pulls: r = h times the place of the client's minimum, [P, D, N].
        noises: mean square of the noise, which has mean zero and is independent of all else, [P, D, N].
        shares: p, [P, N], above 0, with sum 1.
    """

    curvatures: Tensor
    pulls: Tensor
    noises: Tensor
    shares: Tensor

    @property
    def smoothness(self) -> Tensor:
        """Return the smallest L for which all losses are L-smooth, [P]."""
        return self.curvatures.amax((1, 2))

    @property
    def convexity(self) -> Tensor:
        """Return the largest mu for which all losses are mu-strongly convex, [P]."""
        return self.curvatures.amin((1, 2))

    @property
    def variances(self) -> Tensor:
        """Return sigma_k^2, [P, N]."""
        return self.noises.sum(1)

    @property
    def mean_curvatures(self) -> Tensor:
        """Return those of L = sum_k p_k L_k, [P, D]."""
        return self._mean(self.curvatures)

    @property
    def optimum(self) -> Tensor:
        """Return W*, where L is least, [P, D]."""
        return self._mean(self.pulls) / self.mean_curvatures

    @property
    def heterogeneity(self) -> Tensor:
        """Return Gamma = L* - sum_k p_k L_k*, [P]."""
        away = self.optimum.unsqueeze(-1) - self.pulls / self.curvatures
        return self._mean(self.curvatures / 2 * away.square()).sum(-1)

    def scaled(self) -> "Quadratics":
        """Return N p_k L_k with equal shares, eq. (8)."""
        clients = self.shares.shape[-1]
        scales = (clients * self.shares).unsqueeze(1)
        equal = torch.full_like(self.shares, 1 / clients)
        return Quadratics(scales * self.curvatures, scales * self.pulls, scales.square() * self.noises, equal)

    def _mean(self, values: Tensor) -> Tensor:
        return (self.shares.unsqueeze(1) * values).sum(-1)


def made_up_quadratics(seed: int, shares: Tensor, coordinates: int, condition: float) -> tuple[Quadratics, Tensor]:
    """Return problems with L = 1 and mu = 1 / kappa, one for each row of shares, and starts W_1.

    Args:
        seed: of all draws.
        shares: [P, N].
        coordinates: D.
        condition: kappa.

    Returns:
        the problems, and normal starts of deviation 3, [P, D]. Minima are standard normal, curvatures uniform with both
        ends attained, deviations of the noise uniform to 1, the same in all coordinates of a client.
    """
    size = (len(shares), coordinates, shares.shape[-1])
    draws = stream(seed, "quadratics")
    curvatures = draws.uniform(*size)
    lowest, highest = curvatures.amin((1, 2), keepdim=True), curvatures.amax((1, 2), keepdim=True)
    curvatures = 1 / condition + (1 - 1 / condition) * (curvatures - lowest) / (highest - lowest)
    minima, noises = draws.normal(*size), draws.uniform(len(shares), 1, size[-1]).square().expand(*size)
    return Quadratics(curvatures, curvatures * minima, noises, shares), 3 * draws.normal(*size[:2])


@dataclass(frozen=True)
class Plan:
    """How the clients train.

    Attributes:
        participants: K, drawn without replacement; with K = N the clients' mean has their shares.
        local_steps: E.
        second_moment: mean square of a rate over its mean: 1 for fixed rates, 4 / 3 for U(0, 2 eta_t).
        rates: eta_t of t = 1, ..., T in every problem, [T, P].
    """

    participants: int
    local_steps: int
    second_moment: float
    rates: Tensor


@dataclass(frozen=True)
class Course:
    """What the proof speaks of, in the mean over all draws; row t - 1 belongs to step t.

    Attributes:
        distances: Delta_t = E|mean W_t - W*|^2 of t = 1, ..., T + 1, [T + 1, P].
        ahead: E|mean V_{t+1} - W*|^2, before participants are drawn, [T, P].
        noises: E|G_t - its mean|^2 of the clients' mean step G_t, [T, P].
        drifts: E sum_k p_k |mean W_t - W_t^k|^2, [T, P].
        gaps: E L(mean W_t) - L*, [T, P].
        squares: largest mean square of each client's stochastic gradient, [P, N].
    """

    distances: Tensor
    ahead: Tensor
    noises: Tensor
    drifts: Tensor
    gaps: Tensor
    squares: Tensor


@dataclass(frozen=True)
class Moments:
    """Of the weights of all clients: means E w_j, [P, D, N], and mean products E w_j w_k, [P, D, N, N]."""

    means: Tensor
    products: Tensor

    @property
    def own_squares(self) -> Tensor:
        """Return E w_k^2, [P, D, N]."""
        return self.products.diagonal(dim1=-2, dim2=-1)

    def mean_square(self, shares: Tensor, point: Tensor) -> Tensor:
        """Return E(sum_k p_k w_k - point)^2 by coordinate, [P, D]; shares [P, N], point [P, D]."""
        p = shares.unsqueeze(1)
        square = ((self.products @ p.unsqueeze(-1)).squeeze(-1) * p).sum(-1)
        return square - 2 * point * (self.means * p).sum(-1) + point.square()


def descend(problem: Quadratics, plan: Plan, start: Tensor) -> Course:
    """Return the exact course of T steps; in each (t + 1)-th step that E divides the clients take the mean.

    Args:
        problem: P problems.
        plan: how their clients train.
        start: W_1, [P, D], not random.

    Raises:
        ValueError: K < N with unequal shares, for which the mean of those drawn is not right in the mean.
    """
    clients = problem.shares.shape[-1]
    mix = _mixing(problem, plan.participants)
    moments = _gathered(start.unsqueeze(-1), start.square().unsqueeze(-1), clients)
    best, shares, seen = problem.optimum, problem.shares, []
    squares = torch.zeros_like(shares)
    distance = moments.mean_square(shares, best)
    for step, rates in enumerate(plan.rates, start=1):
        slopes = _slope_squares(problem, moments)
        squares = torch.maximum(squares, (slopes + problem.noises).sum(1))
        random = rates[:, None, None].square() * (
            (plan.second_moment - 1) * slopes + plan.second_moment * problem.noises
        )
        mean = moments.mean_square(shares, torch.zeros_like(best))
        drift = (shares.unsqueeze(1) * moments.own_squares).sum(-1) - mean
        moments = _stepped(problem, moments, rates[:, None, None], random)
        ahead = moments.mean_square(shares, best)
        noise = (shares.square().unsqueeze(1) * random).sum(-1)
        gap = problem.mean_curvatures / 2 * distance
        seen.append(torch.stack([distance, ahead, noise, drift, gap]).sum(-1))
        if (step + 1) % plan.local_steps == 0:
            moments = mix(moments)
        distance = moments.mean_square(shares, best)
    distances, ahead, noises, drifts, gaps = torch.stack(seen, 1)
    return Course(torch.cat([distances, distance.sum(-1)[None]]), ahead, noises, drifts, gaps, squares)


def _slope_squares(problem: Quadratics, moments: Moments) -> Tensor:
    """Return E(h w - r)^2, [P, D, N]."""
    h, r = problem.curvatures, problem.pulls
    return h.square() * moments.own_squares - 2 * h * r * moments.means + r.square()


def _stepped(problem: Quadratics, moments: Moments, rates: Tensor, random: Tensor) -> Moments:
    """Return the moments of (1 - eta h) w + eta r, with each client's random part added to its square."""
    keep, add = 1 - rates * problem.curvatures, rates * problem.pulls
    kept = keep * moments.means
    crossed = kept.unsqueeze(-1) * add.unsqueeze(-2)
    products = keep.unsqueeze(-1) * keep.unsqueeze(-2) * moments.products + crossed + crossed.mT
    products = products + add.unsqueeze(-1) * add.unsqueeze(-2) + torch.diag_embed(random)
    return Moments(kept + add, products)


def _mixing(problem: Quadratics, participants: int) -> Callable[[Moments], Moments]:
    """Return what gives all clients the mean of those who take part."""
    shares, clients = problem.shares, problem.shares.shape[-1]
    pairs = shares.unsqueeze(-1) * shares.unsqueeze(-2)
    if participants < clients:
        if not torch.allclose(shares, torch.full_like(shares, 1 / clients), atol=1e-12):
            raise ValueError("participants can be drawn of clients with equal shares only")
        # both of a pair are drawn with probability K (K - 1) / (N (N - 1))
        both = (participants - 1) / (participants * clients * (clients - 1))
        alone = 1 / (participants * clients)
        pairs = torch.full_like(pairs, both) + torch.eye(clients, dtype=pairs.dtype) * (alone - both)

    def mix(moments: Moments) -> Moments:
        mean = (shares.unsqueeze(1) * moments.means).sum(-1, keepdim=True)
        square = (pairs.unsqueeze(1) * moments.products).sum((-2, -1)).unsqueeze(-1)
        return _gathered(mean, square, clients)

    return mix


def _gathered(means: Tensor, squares: Tensor, clients: int) -> Moments:
    """Return the moments where all clients have the same weight, from its mean and square, [P, D, 1]."""
    return Moments(means.expand(-1, -1, clients), squares.unsqueeze(-1).expand(-1, -1, clients, clients))
