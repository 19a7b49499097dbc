"""DP-SGD: each sample's gradient is clipped before the mean, which then gets normal noise.

Sources: "Deep Learning with Differential Privacy" (DP-SGD, algorithm 1); DP-FedAvg, PPSGD and CENTAUR in HyperFL's
tables, whose budget, bound and accountant are those of its public code (register Q-C3).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import ClassVar, Literal

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.records.bounds import NonNegative, OpenShare, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import DefenseTraits

# The privacy accountant: what steps with clipped samples and normal noise spend.

# those of Opacus' accountant, and larger ones for small budgets
ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64), *range(64, 1025, 32))


@cache
def epsilon_spent(sigma: float, rate: float, steps: int, delta: float) -> float:
    """Return the epsilon of (epsilon, delta)-differential privacy for adding or removing one sample.

    Args:
        sigma: noise multiplier, the deviation of the noise on the clipped sum over the bound; positive.
        rate: probability with which each sample joins each batch, from above 0 to 1.
        steps: how many; 0 spend nothing.
        delta: probability with which the bound may fail.
    """
    if not steps:
        return 0.0
    # the package brings all of its hooks along, so only who has a budget imports it
    from opacus.accountants.analysis import rdp

    divergences = rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=steps, orders=ORDERS)
    with warnings.catch_warnings():
        # at the ends of the orders the bound holds too, it is only not the tightest
        warnings.simplefilter("ignore", UserWarning)
        budget, _ = rdp.get_privacy_spent(orders=ORDERS, rdp=divergences, delta=delta)
    return float(budget)


@dataclass(frozen=True)
class DpSgd(Defense):
    """Send (sum over samples of min(1, C / |g_b|) g_b + N(0, (sigma C)^2)) / B as the gradient of every local step.

    The norm is over all that leaves the client and moves in the step; what stays with it is neither clipped nor noised.
    The budget is the accountant's for batches in which each sample is drawn on its own (``poisson``). With shuffled
    passes, as published, it is a nominal number: no theorem gives it. It also speaks only of the gradients that are
    clipped. Under PPSGD and CENTAUR the classifier learns without noise from the same samples and shapes the clipped
    gradients, so that no budget of the samples follows from theirs.

    Attributes:
        bound: C, in the units of a sample's gradient; positive.
        sigma: noise multiplier; 0 clips only. The noise on each coordinate has the deviation sigma C / B.
        epsilon: budget that the training must not exceed, and of which the record tells what was spent; None: no
            budget is asked for, what was spent is told all the same.
        delta: probability with which the budget may fail.
        sampling: ``shuffled`` passes, or ``poisson``, where each sample joins each batch with probability B / n.
    """

    traits: ClassVar[DefenseTraits] = DefenseTraits(budget=("epsilon", "sigma"), step_factor=1.8)

    bound: Positive = 0.04
    sigma: NonNegative = 10.62
    epsilon: Positive | None = None
    delta: OpenShare = 1e-5
    sampling: Literal["shuffled", "poisson"] = "shuffled"

    def __post_init__(self) -> None:
        require_between("defense dp-sgd", 0, inf, bound=self.bound)
        require_between("defense dp-sgd", -1, inf, sigma=self.sigma)
        require_between("defense dp-sgd", 0, 1, delta=self.delta)
        if self.epsilon is not None and not self.sigma > 0:
            raise UserError(
                "defense dp-sgd: sigma 0 adds no noise and so keeps no epsilon: raise sigma or leave epsilon out"
            )

    def sample_bound(self, context: ClientContext) -> float:
        """Return C."""
        return self.bound

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the clipped mean gradient plus noise of deviation sigma C / B on every coordinate.

        Raises:
            UserError: there is no batch.
        """
        if not self.sigma:
            return gradients
        if not context.batch_size:
            raise UserError("defense dp-sgd: the noise depends on the size of a batch, and there is none here")
        deviation = self.sigma * self.bound / context.batch_size
        return {
            name: value + (deviation * context.stream(f"noise of {name}").normal(*value.shape)).to(value)
            for name, value in gradients.items()
        }

    def poisson_batches(self) -> bool:
        """Whether samples are drawn one by one."""
        return self.sampling == "poisson"

    def spent(self, rate: float, steps: int) -> float | None:
        """Return epsilon at this delta; None without noise."""
        return epsilon_spent(self.sigma, rate, steps, self.delta) if self.sigma else None

    @property
    def largest_budget(self) -> float | None:
        """The budget that was asked for."""
        return self.epsilon


PLUGIN = DpSgd
