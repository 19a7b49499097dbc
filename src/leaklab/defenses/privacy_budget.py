"""The privacy accountant: what steps with clipped samples and normal noise spend, by Opacus.

Source: "Renyi Differential Privacy of the Sampled Gaussian Mechanism", converted as in Opacus' ``RDPAccountant``.
"""

import warnings
from functools import cache

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
