"""Clients with unequal shares p_k: their scaled losses and the bound of the theorem for them.

Each client steps on N p_k L_k, so that the plain mean is the weighted loss (LRP, eqs. (8), (9)). For nu = N max p_k and
varsigma = N min p_k the paper puts nu L, varsigma mu, root(nu) sigma_k and root(nu) G in the place of L, mu, sigma_k
and G. Gradients scale by N p_k and not by its root, so for a client of its own it takes nu sigma_k and nu G. The bound
that comes of the roots holds all the same: the proof needs the scaled smoothness nu L in every step but the last, which
asks for the smoothness of the weighted loss, L; the nu that is too much there stands for the one that lacks in the
squares. (What eq. (7) lacks beside, see ``convergence.printed``, it lacks for equal shares too.)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.records.streams import stream
from leaklab.theory.convergence import Constants, corrected, printed, tight
from leaklab.theory.tasks import RidgeSoftmax

# of drawn shares: the part of an equal share that each has at least, and deviations of the rest's logarithms
LEAST = 0.1
SPREADS = (0.3, 1.0, 2.0)


def geometric_shares(clients: int, ratio: float) -> tuple[float, ...]:
    """Return N shares, each the same factor above the one before; the last is ``ratio`` times the first."""
    sizes = [ratio ** (place / max(clients - 1, 1)) for place in range(clients)]
    return tuple(size / sum(sizes) for size in sizes)


def drawn_shares(seed: int, draws: int, clients: int) -> Tensor:
    """Return nearly even, uneven and very uneven shares in turn, [draws, N]; each at least a tenth of the even one."""
    spreads = torch.tensor(SPREADS, dtype=torch.float64)[torch.arange(draws) % len(SPREADS)]
    sizes = spreads.unsqueeze(-1) * stream(seed, "shares").normal(draws, clients)
    return LEAST / clients + (1 - LEAST) * sizes.softmax(-1)


def extremes(shares: Sequence[float]) -> tuple[float, float]:
    """Return nu = N max p_k and varsigma = N min p_k."""
    return len(shares) * max(shares), len(shares) * min(shares)


# The theorem's constants for the losses N p_k L_k, from those of the L_k.


def replaced(constants: Constants, shares: Sequence[float]) -> Constants:
    """Return the constants as the paper replaces them."""
    largest, _ = extremes(shares)
    return _scaled(constants, shares, [largest] * len(shares), largest)


def needed(constants: Constants, shares: Sequence[float]) -> Constants:
    """Return constants that the assumptions allow for any client: nu sigma_k and nu G."""
    largest, _ = extremes(shares)
    return _scaled(constants, shares, [largest**2] * len(shares), largest**2)


def own(constants: Constants, shares: Sequence[float]) -> Constants:
    """Return N p_k sigma_k, and of G^2 the mean over the clients, which is all that lemmas 2 to 4 ask for."""
    squares = [(len(shares) * share) ** 2 for share in shares]
    return _scaled(constants, shares, squares, sum(squares) / len(squares))


def _scaled(
    constants: Constants, shares: Sequence[float], of_variances: Sequence[float], of_square: float
) -> Constants:
    largest, least = extremes(shares)
    return replace(
        constants,
        smoothness=largest * constants.smoothness,
        convexity=least * constants.convexity,
        variances=tuple(v * factor for v, factor in zip(constants.variances, of_variances, strict=True)),
        gradient_square=of_square * constants.gradient_square,
    )


def _printed(constants: Constants, shares: Sequence[float], step: int) -> float:
    """Return eq. (7) with the constants that the paper puts in."""
    return printed(replaced(constants, shares), step)


def _corrected(constants: Constants, shares: Sequence[float], step: int) -> float:
    """Return what the appendix's proof gives with constants that its assumptions allow."""
    return corrected(needed(constants, shares), step)


def _tight(constants: Constants, shares: Sequence[float], step: int) -> float:
    """Return the bound with each client's own constants, the squared rates' mean, and L at the end of the proof."""
    return tight(own(constants, shares), step) / extremes(shares)[0]


BOUNDS: Mapping[str, Callable[[Constants, Sequence[float], int], float]] = {
    "bound_printed": _printed,
    "bound_corrected": _corrected,
    "bound_tight": _tight,
}
"""Forms of the bound by name: constants of the L_k, shares and step -> largest gap; with equal shares the balanced."""


@dataclass(frozen=True)
class ScaledRidge(RidgeSoftmax):
    """The losses N p_k L_k of clients with unequal shares; their plain mean is sum_k p_k L_k.

    Attributes:
        scales: N p_k, float64, [N].
    """

    scales: Tensor

    def losses(self, weights: Tensor) -> Tensor:
        """Return N p_k L_k(W), [..., N]."""
        return self.scales * super().losses(weights)

    def mean_gradients(self, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return the gradients of the scaled losses."""
        return self.scales[:, None, None] * super().mean_gradients(residuals, weights)

    def sample_gradients(self, residuals: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Return each client's scaled gradient of one sample."""
        return self.scales[:, None, None] * super().sample_gradients(residuals, weights, chosen)

    def gradient_squares(self, logits: Tensor, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return the mean square of a random sample's scaled gradient."""
        return self.scales.square() * super().gradient_squares(logits, residuals, weights)


@dataclass(frozen=True)
class MeanRidge(ScaledRidge):
    """The weighted loss sum_k p_k L_k, as a problem of one client."""

    def losses(self, weights: Tensor) -> Tensor:
        """Return the weighted loss, [..., 1]."""
        return super().losses(weights).mean(-1, keepdim=True)

    def mean_gradients(self, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return its gradient, [..., 1, d, C]."""
        return super().mean_gradients(residuals, weights).mean(-3, keepdim=True)
