"""The privacy accountant: what steps with clipped samples and normal noise spend, and what nobody can tell apart.

Sources: "Renyi Differential Privacy of the Sampled Gaussian Mechanism", converted as in Opacus' ``RDPAccountant``;
"Gaussian Differential Privacy" for releases without sampling (corollary 2.13 at epsilon 0, and corollary 3.3).
"""

import warnings
from functools import cache
from math import erf, expm1, inf, isfinite, sqrt

from leaklab.records.errors import UserError

# those of Opacus' accountant, and larger ones for small budgets
ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64), *range(64, 1025, 32))
LEAST_ORDERS = (1.01, 1.1, 1.5, 2.0)
"""Renyi's divergence falls with its order to that of Kullback and Leibler, of order 1."""


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


def total_variation(sensitivity: float, deviation: float, releases: int = 1) -> float:
    """Return the largest total variation of normal releases about two secrets, 2 Phi(sqrt(k) s / (2 sigma)) - 1.

    It is exact: two secrets as far apart as ``sensitivity`` in every release have it, none have more, whatever is
    chosen for a release after those before it. Whoever guesses which of two equally likely secrets it was is right with
    probability ``best_guess`` of it at most.

    Args:
        sensitivity: s, the largest Euclidean distance between what two secrets would release without noise; infinite
            where nothing bounds it.
        deviation: sigma, of the independent noise on every coordinate, in the same units; 0: none.
        releases: k, how many.

    Returns:
        From 0, which nobody can tell apart, to 1.

    Raises:
        UserError: a number is negative or not one.
    """
    _refuse_negative(sensitivity=sensitivity, deviation=deviation, releases=releases)
    if not sensitivity or not releases:
        return 0.0
    return erf(sqrt(releases) * sensitivity / (2 * deviation) / sqrt(2)) if deviation and sensitivity < inf else 1.0


def variation_of_samples(sigma: float, steps: int, rate: float = 1.0, samples: int = 1) -> float:
    """Return a bound on the total variation of steps of DP-SGD when some samples are replaced by others.

    Each sample's gradient is clipped to C, and the noise on their sum has the deviation sigma C; C is no part of the
    answer. With all samples in every step the bound is exact, and so it is for one step of drawn samples, whose
    variation is the rate times that of a step which surely holds the sample; variations of steps add up at most. For
    many steps the accountant knows better: it bounds the Kullback-Leibler divergence for adding a sample by Renyi's of
    an order above 1, that bounds the total variation (Pinsker; Bretagnolle and Huber), and a replaced sample is one
    removed and one added.

    Args:
        sigma: noise multiplier; 0: no noise.
        steps: how many.
        rate: probability with which each sample joins each batch, from above 0 to 1; 1 is also right for batches of
            any other kind, as no step can hold a sample more often than always.
        samples: how many are replaced.

    Raises:
        UserError: a number is negative or not one, or the rate is no probability.
    """
    _refuse_negative(sigma=sigma, steps=steps, rate=rate, samples=samples)
    if not 0 < rate <= 1:
        raise UserError(f"total variation: rate {rate:g} is no probability: give one above 0, at most 1")
    always = total_variation(2 * samples, sigma, steps)
    if rate == 1 or always in (0, 1):
        return always
    from opacus.accountants.analysis import rdp

    divergence = float(min(rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=steps, orders=LEAST_ORDERS)))
    added = min(sqrt(divergence / 2), sqrt(-expm1(-divergence)))
    return min(always, 2 * samples * added, samples * steps * rate * total_variation(2, sigma))


def best_guess(variation: float) -> float:
    """Return how often the best guess of which of two equally likely secrets it was is right, from 0.5 to 1."""
    return (1 + variation) / 2


def _refuse_negative(**numbers: float) -> None:
    for name, value in numbers.items():
        if not value >= 0 or not (isfinite(value) or name == "sensitivity"):
            raise UserError(f"total variation: {name} {value} says nothing: give a number that is at least 0")
