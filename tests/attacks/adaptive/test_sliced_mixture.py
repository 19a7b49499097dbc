"""The likelihood of an update whose slices are noise or exact: a slow version, its law, and its derivative."""

from math import comb, exp, log, pi, sqrt

import pytest
import torch

from leaklab.attacks.adaptive.laws import SlicedMixture
from leaklab.attacks.learnt.runs import BLOCK, SlicedLaw
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SIGMA = 0.05
ENTRIES = 2 * BLOCK + 6


@pytest.mark.parametrize("shortened", [True, False])
@pytest.mark.parametrize("steps", [1, 3])
def test_it_is_the_mixture_over_the_steps_that_perturbed_a_block(steps, shortened):
    law, error = SlicedLaw(0.4, SIGMA, shortened, steps), 0.2
    gradients = [0.1 * stream(0, which).normal(ENTRIES) for which in range(2)]
    observed = 0.1 * stream(1, "o").normal(ENTRIES)

    def plain(gradient):
        total = 0.0
        for first in range(0, ENTRIES, BLOCK):
            g, o = gradient[first : first + BLOCK].tolist(), observed[first : first + BLOCK].tolist()
            floor = error**2 * sum(x**2 for x in o) / len(o)
            block = 0.0
            for number in range(steps + 1):
                part = comb(steps, number) * 0.4**number * 0.6 ** (steps - number)
                left = 1 - number / steps if shortened else 1.0
                variance = number * SIGMA**2 / steps**2 + floor
                for a, b in zip(g, o, strict=True):
                    part *= exp(-((b - left * a) ** 2) / (2 * variance)) / sqrt(2 * pi * variance)
                block += part
            total -= log(block)
        return total

    ours = [float(law.widened(error, {})([g[None]], [observed[None]])[0]) for g in gradients]
    assert ours[1] - ours[0] == pytest.approx(plain(gradients[1]) - plain(gradients[0]), rel=1e-9)


def test_exact_blocks_are_matched_and_blocks_of_noise_are_not():
    gradient, noise = (stream(2, name).normal(4, ENTRIES) for name in ("g", "n"))
    observed = gradient.clone()
    observed[:, :BLOCK] = SIGMA * noise[:, :BLOCK]
    _, (slope,), _ = SlicedLaw(0.5, SIGMA).widened(1e-3, {})([1.01 * gradient], [observed])
    assert float(slope[:, :BLOCK].abs().max()) < 1e-9
    expected = 0.01 * gradient[:, BLOCK : 2 * BLOCK]
    floor = 1e-6 * (observed[:, BLOCK : 2 * BLOCK] ** 2).mean(1, keepdim=True)
    assert torch.allclose(slope[:, BLOCK : 2 * BLOCK], expected / floor, rtol=1e-6)


def test_the_derivative_equals_differences():
    gradient, observed, way = (0.1 * stream(3, name).normal(4, 5, 30) for name in "gow")
    distance, step = SlicedLaw(0.5, SIGMA, steps=2).widened(0.3, {}), 1e-6
    ahead, behind = (distance([gradient + sign * step * way], [observed])[0] for sign in (1, -1))
    _, (slope,), _ = distance([gradient], [observed])
    assert torch.allclose((ahead - behind) / (2 * step), (slope * way).flatten(1).sum(1), rtol=1e-5)


def test_it_reads_the_defense_from_the_facts():
    facts = {"defense": {"name": "grad-defense", "settings": {"noised": 0.35}}, "local_steps": 2}
    assert SlicedMixture().informed(Knowledge("any", facts)).distance == SlicedLaw(0.4, 0.01, True, 2)
    with pytest.raises(UserError, match="made for grad-defense"):
        SlicedMixture().informed(Knowledge("any", {**facts, "defense": {"name": "lrp", "settings": {}}}))


class TestStepsThatDiffer:
    LAW = SlicedLaw(0.4, SIGMA, shortened=True, steps=2)

    def value(self, gradients, observed, error=0.2, shares=(0.3, 0.7), law=LAW):
        return float(law.of_steps(error, {}, shares)([gradients[None]], [observed[None]])[0])

    def test_equal_steps_have_the_law_of_one_gradient(self):
        gradients, observed = (
            (0.1 * stream(4, which).normal(ENTRIES) for which in "go"),
            0.1 * stream(1, "o").normal(ENTRIES),
        )
        first, second = (torch.stack([g, g]) for g in gradients)
        ours = self.value(second, observed, shares=(0.5, 0.5)) - self.value(first, observed, shares=(0.5, 0.5))
        both = [float(self.LAW.widened(0.2, {})([g[:1]], [observed[None]])[0]) for g in (first, second)]
        assert ours == pytest.approx(both[1] - both[0], rel=1e-9)

    def test_a_block_is_the_mixture_over_the_steps_that_perturbed_it(self):
        observed, error, shares = 0.1 * stream(1, "o").normal(ENTRIES), 0.2, (0.3, 0.7)
        guesses = [0.1 * stream(5, which).normal(2, ENTRIES) for which in range(2)]

        def plain(steps):
            total = 0.0
            for first in range(0, ENTRIES, BLOCK):
                o = observed[first : first + BLOCK].tolist()
                g = steps[:, first : first + BLOCK].tolist()
                floor, block = error**2 * sum(x**2 for x in o) / len(o), 0.0
                for one, two in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    part = (0.4 if one else 0.6) * (0.4 if two else 0.6)
                    variance = floor + SIGMA**2 * (0.09 * one + 0.49 * two)
                    for place, value in enumerate(o):
                        mean = 0.3 * g[0][place] * (1 - one) + 0.7 * g[1][place] * (1 - two)
                        part *= exp(-((value - mean) ** 2) / (2 * variance)) / sqrt(2 * pi * variance)
                    block += part
                total -= log(block)
            return total

        ours = [self.value(one, observed, error, shares) for one in guesses]
        assert ours[1] - ours[0] == pytest.approx(plain(guesses[1]) - plain(guesses[0]), rel=1e-9)

    def test_a_step_moves_by_the_mean_over_its_slices(self):
        gradient = stream(6, "g").normal(3, 4)
        assert torch.allclose(self.LAW.moved(gradient), 0.6 * gradient)
        assert torch.equal(SlicedLaw(0.4, SIGMA, shortened=False).moved(gradient), gradient)
