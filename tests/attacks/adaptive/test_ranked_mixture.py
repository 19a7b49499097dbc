"""The likelihood of an update under OUTPOST: its law at the truth, its limits, a slow version, and its derivative."""

from dataclasses import replace
from itertools import product
from math import exp, log, pi, sqrt

import pytest
import torch
from scipy import stats

from leaklab.attacks.adaptive.emulation import on_support
from leaklab.attacks.adaptive.noise import negative_log_likelihood
from leaklab.attacks.adaptive.outpost import RankedLaw, RankedMixture, perturbed_steps
from leaklab.defenses.outpost import Outpost
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS = 200
EXACT = 1e-7
"""Error at which the likelihood is as good as exact."""


@pytest.fixture(scope="module")
def gradients(weights):
    return [stream(1, name).normal(TRIALS, *value.shape) for name, value in weights.items()]


def perturbed(gradients, weights, law, seed=2):
    """Return what is observed of M of N perturbed steps with the same gradient, by hand from algorithm 1."""
    steps = law.steps
    chances = torch.tensor(law.chances, dtype=torch.float64)
    which = torch.multinomial(chances, TRIALS, replacement=True, generator=torch.Generator().manual_seed(seed))
    observed = []
    for g, (name, w) in zip(gradients, weights.items(), strict=True):
        flat, deviation = g.flatten(1), law.noise_scale * float(w.var(correction=0))
        entries = flat.shape[1]
        order = flat.abs().argsort(1, descending=True)
        rank = order.argsort(1)
        kept, noised = (rank < count for count in law.counts(entries))
        total = torch.zeros_like(flat)
        for step in range(steps):
            noise = deviation * stream(seed, name, step).normal(TRIALS, entries)
            changed = torch.where(kept, flat, 0.0) + torch.where(noised, noise, 0.0)
            total += torch.where((step < which)[:, None], changed, flat)
        observed.append((total / steps).view_as(g))
    return observed


def value(law, weights, gradients, observed, error=EXACT):
    return law.widened(error, weights)(gradients, observed)[0]


class TestAtTheTruth:
    LAW = RankedLaw(pruned=0.8, noised=0.4, noise_scale=0.8)

    def p_value(self, law, weights, gradients, observed):
        entries = int(sum((o[0] != 0).sum() for o in observed))
        twice = 2 * value(law, weights, gradients, observed)
        return stats.kstest(twice.numpy(), stats.chi2(entries).cdf).pvalue

    def test_it_is_half_a_chi_squared_variable_of_the_entries_that_are_not_zero(self, weights, gradients):
        assert self.p_value(self.LAW, weights, gradients, perturbed(gradients, weights, self.LAW)) > 0.01

    def test_and_is_not_for_noise_of_another_strength_or_in_other_places(self, weights, gradients):
        observed = perturbed(gradients, weights, self.LAW)
        assert self.p_value(replace(self.LAW, noise_scale=0.84), weights, gradients, observed) < 1e-6
        # what the study calls masked: every entry that is not zero taken for g + n
        other = replace(self.LAW, pruned=0.6)
        assert self.p_value(other, weights, gradients, observed) < 1e-6

    def test_another_gradient_is_less_likely_at_every_error(self, weights, gradients):
        observed = perturbed(gradients, weights, self.LAW)
        shifted = [g + 0.3 * stream(3, place).normal(*g.shape) for place, g in enumerate(gradients)]
        for error in (0.3, 0.1, 0.01):
            right, wrong = (value(self.LAW, weights, one, observed, error) for one in (gradients, shifted))
            assert bool((right < wrong).all())


class TestLimits:
    def test_without_pruning_and_with_noise_everywhere_it_is_that_of_gaussian_noise(self, weights, gradients):
        law = RankedLaw(pruned=0.0, noised=1.0, noise_scale=0.5)
        observed = perturbed(gradients, weights, law)
        shifted = [1.1 * g for g in gradients]
        deviations = [0.5 * float(w.var(correction=0)) for w in weights.values()]
        for one in (gradients, shifted):
            parts = [
                negative_log_likelihood([g], [o], sigma=s)[0] for g, o, s in zip(one, observed, deviations, strict=True)
            ]
            assert torch.allclose(value(law, weights, one, observed), sum(parts), rtol=1e-6)

    def test_without_noise_it_is_that_of_the_entries_that_are_left_and_of_the_ranks(self, weights, gradients):
        """A common factor leaves the ranks as they are, so that the distance on the support is all that changes."""
        law, error = RankedLaw(pruned=0.8, noised=0.0, noise_scale=0.8), 1e-3
        observed = perturbed(gradients, weights, law)
        at_truth = value(law, weights, gradients, observed, error)
        expected = 0.0
        for g, o in zip(gradients, observed, strict=True):
            expected = expected + on_support([1.1 * g], [o])[0] / (2 * error**2 * (o**2).flatten(1).mean(1))
        assert torch.allclose(value(law, weights, [1.1 * g for g in gradients], observed, error) - at_truth, expected)

    def test_the_zeros_speak_where_noise_has_drowned_all_values(self, weights, gradients):
        law = RankedLaw(pruned=0.8, noised=0.4, noise_scale=1e6)
        observed = perturbed(gradients, weights, law)
        swapped = [g.flip(-1) for g in gradients]
        right, wrong = (value(law, weights, one, observed, 0.03) for one in (gradients, swapped))
        assert bool((right < wrong).all())


@pytest.mark.parametrize(("pruned", "noised"), [(0.8, 0.4), (0.5, 0.3)])
def test_several_steps_are_the_mixture_over_the_perturbed_ones(pruned, noised, soft_share):
    """Entry by entry in plain Python, with densities that are normalised; only differences count."""
    error, entries, steps = 0.25, 20, 3
    weights = {"w": stream(5, "w").normal(entries)}
    law = RankedLaw(pruned, noised, 0.5, perturbed_steps(steps, 1, 0.5))
    deviation = 0.5 * float(weights["w"].var(correction=0))
    observed = stream(6, "o").normal(entries)
    kept, changed = law.counts(entries)
    between, most = min(kept, changed), max(kept, changed)

    def plain(gradient):
        floor = error**2 * float((observed**2).mean())
        sizes = [float(g) ** 2 for g in gradient]
        large, some = soft_share(sizes, between, error), soft_share(sizes, most, error)

        def normal(x, variance):
            return exp(-(x**2) / (2 * variance)) / sqrt(2 * pi * variance)

        total = 0.0
        for number in range(1, steps):
            part, left = law.chances[number], 1 - number / steps
            noise = number * deviation**2 / steps**2 + floor
            for g, o, p, q in zip(gradient.tolist(), observed.tolist(), large, some, strict=True):
                middle = normal(o - left * g, noise) if changed > kept else normal(o - g, floor)
                part *= (1 - q) * normal(o - left * g, floor) + q * (p * normal(o - g, noise) + (1 - p) * middle)
            total += part
        return -log(total)

    first, second = (observed + 0.3 * stream(8, which).normal(entries) for which in range(2))
    ours = [float(value(law, weights, [one[None]], [observed[None]], error)) for one in (first, second)]
    assert ours[1] - ours[0] == pytest.approx(plain(second) - plain(first), rel=1e-9)


@pytest.mark.parametrize("law", [
    RankedLaw(0.8, 0.4, 0.8), RankedLaw(0.5, 0.3, 0.8), RankedLaw(0.8, 0.0, 0.8), RankedLaw(0.0, 0.4, 0.8),
    RankedLaw(0.8, 0.4, 0.8, perturbed_steps(3, 2, 0.1)),
], ids=["paper", "little noise", "prune", "noise", "steps"])  # fmt: skip
def test_the_derivative_equals_differences(weights, gradients, law):
    observed = perturbed(gradients, weights, law)
    shifted = [0.9 * g + 0.05 for g in gradients]
    distance, step = law.widened(0.05, weights), 1e-6
    way = [stream(4, place).normal(*g.shape) for place, g in enumerate(gradients)]
    ahead, behind = (
        distance([g + sign * step * d for g, d in zip(shifted, way, strict=True)], observed)[0] for sign in (1, -1)
    )
    slopes = distance(shifted, observed)[1]
    expected = sum((s * d).flatten(1).sum(1) for s, d in zip(slopes, way, strict=True))
    assert torch.allclose((ahead - behind) / (2 * step), expected, rtol=1e-4, atol=1e-3)


class TestSchedule:
    def test_it_is_that_of_every_pattern_of_steps(self):
        decay, steps = 0.3, 4
        chances = [0.0] * (steps + 1)
        for pattern in product([0, 1], repeat=steps):
            chance = 1.0
            for i, one in enumerate(pattern, 1):
                share = 1.0 if i == 1 else 1 / (1 + decay * i)
                chance *= share if one else 1 - share
            chances[sum(pattern)] += chance
        assert perturbed_steps(steps, 1, decay) == pytest.approx(chances)

    @pytest.mark.parametrize(("steps", "share"), [(80, 0.27), (180, 0.16)])
    def test_the_expected_share_is_that_of_the_defense(self, steps, share):
        chances = perturbed_steps(steps, 1, 0.1)
        assert sum(chances) == pytest.approx(1)
        assert sum(number * chance for number, chance in enumerate(chances)) / steps == pytest.approx(share, abs=0.01)

    def test_every_round_begins_with_a_perturbed_step(self):
        assert perturbed_steps(1, 5, 0.1) == (0, 0, 0, 0, 0, 1)
        assert perturbed_steps(2, 3, 0.1)[:3] == (0, 0, 0)


class TestTransform:
    def knows(self, name="outpost", **settings):
        return Knowledge("any", {"defense": {"name": name, "settings": settings}, "local_steps": 1})

    def test_it_reads_the_defense_from_the_facts(self):
        law = RankedMixture().informed(self.knows(pruned=0.7, parts="prune")).distance
        assert law == RankedLaw(0.7, 0.0, Outpost().noise_scale)
        assert RankedMixture().informed(self.knows(parts="noise")).distance.pruned == 0

    def test_it_counts_as_the_defense_does(self):
        law = RankedMixture().informed(self.knows()).distance
        for entries in (1, 5, 12, 588, 5880):
            assert law.counts(entries)[1] == Outpost()._noised_count(entries)

    def test_it_refuses_what_it_does_not_know(self):
        for facts, message in (
            (self.knows("lrp"), "made for outpost and gradient-compression and none, not"),
            (self.knows(as_coded=True), "as described"),
        ):
            with pytest.raises(UserError, match=message):
                RankedMixture().informed(facts)
        with pytest.raises(UserError, match="has not read"):
            _ = RankedMixture().distance
        with pytest.raises(UserError, match="annealed-likelihood"):
            RankedMixture().informed(self.knows()).distance([], [])
