"""The steps of the proof of LRP's theorem 1 as ratios of left side to right: above 1 a step does not hold.

Source: LRP appendix A, lemmas 1 and 3, eqs. (17), (18), and the induction Delta_t <= v / (gamma + t) behind them. Each
function takes P problems at once: courses [T, P], rates [T, P], and a list of P constants.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from leaklab.theory.convergence import LARGEST_SQUARE, SECOND_MOMENT, Constants
from leaklab.theory.quadratics import Course

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
