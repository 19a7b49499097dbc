"""The likelihood of the mean of steps that differ: one step, convolution, a slow version, its law, its derivative."""

from dataclasses import replace
from functools import partial
from itertools import product
from math import exp, log, pi, sqrt

import numpy as np
import pytest
import torch
from scipy import stats

from leaklab.attacks.adaptive.outpost import RankedLaw, RankedMixture, counted, schedule
from leaklab.attacks.adaptive.ranked_steps import largest_only, mostly_zeros
from leaklab.defenses.base import Alone, ClientContext, NoDefense
from leaklab.defenses.outpost import GradientCompression, Outpost
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS = 60
EXACT = 1e-7


def law_of(defense, steps=2):
    return RankedMixture().law(defense, steps, 1)


def of_schedule(law, *chances):
    return replace(law, chances=counted(chances), schedule=chances)


@pytest.fixture(scope="module")
def gradients(weights):
    """Of two steps on different images: [T, 2, ...]."""
    return [stream(1, name).normal(TRIALS, 2, *value.shape) for name, value in weights.items()]


def sent(defense, gradients, weights):
    """Return the mean of what the defense of the house makes of the gradients of each step."""
    observed = [torch.zeros_like(g[:, 0]) for g in gradients]
    for trial in range(TRIALS):
        context = ClientContext(scaled_rate=1.0, seed=3, client=trial)
        for step in range(gradients[0].shape[1]):
            own = {name: g[trial, step] for name, g in zip(weights, gradients, strict=True)}
            left = defense.gradient(own, replace(context, moment=Alone(step, weights)))
            for total, name in zip(observed, weights, strict=True):
                total[trial] += left[name] / gradients[0].shape[1]
    return observed


def value(law, weights, gradients, observed, error=EXACT, shares=(0.5, 0.5)):
    return law.of_steps(error, weights, shares)(gradients, observed)[0]


@pytest.mark.parametrize("defense", [Outpost(), Outpost(parts="prune"), Outpost(parts="noise"), GradientCompression(),
    NoDefense()], ids=["outpost", "prune", "noise", "compression", "none"])  # fmt: skip
def test_one_step_has_the_law_of_one_gradient(defense, weights, gradients):
    """Up to rounding, at every error; it is the mean of several that differs."""
    law, one = law_of(defense, 1), [g[:, :1] for g in gradients]
    observed = sent(defense, one, weights)
    for error in (0.1, 3e-3):
        for seen in (one, [1.1 * g + 0.02 for g in one]):
            alone = law.widened(error, weights)([g[:, 0] for g in seen], observed)[0]
            assert torch.allclose(value(law, weights, seen, observed, error, (1.0,)), alone, rtol=1e-10)


@pytest.mark.parametrize("defense", [NoDefense(), GradientCompression(0.8)], ids=["none", "compression"])
def test_where_entries_are_exact_the_optimum_is_the_truth(defense, weights, gradients):
    law, observed = law_of(defense), sent(defense, gradients, weights)
    best, slopes, _ = law.of_steps(EXACT, weights, (0.5, 0.5))(gradients, observed)
    for size in (1e-6, 1e-3, 0.1):
        shifted = [g + size * stream(2, place).normal(*g.shape) for place, g in enumerate(gradients)]
        assert bool((value(law, weights, shifted, observed) > best).all())
    if isinstance(defense, NoDefense):
        assert max(float(slope.abs().max()) for slope in slopes) * EXACT < 1e-6


class TestAtTheTruth:
    def chi_squared(self, law, weights, gradients, observed, entries):
        """Return how likely it is that the loss above that of the mean outcome is half a chi-squared variable."""
        quiet = sent(Outpost(noise_scale=1e-12, decay=0.0), gradients, weights)
        twice = 2 * (value(law, weights, gradients, observed) - value(law, weights, gradients, quiet))
        return stats.kstest(twice.numpy(), stats.chi2(entries).cdf).pvalue

    def test_the_law_is_that_of_the_defense_and_not_that_of_one_gradient(self, weights, gradients):
        defense = Outpost(decay=0.0)
        observed = sent(defense, gradients, weights)
        changed = int(torch.stack([(o != 0).flatten(1).sum(1) for o in observed]).sum(0).float().mean())
        law = law_of(defense)
        assert self.chi_squared(law, weights, gradients, observed, changed) > 1e-3
        weaker = replace(law, noise_scale=0.76)
        assert self.chi_squared(weaker, weights, gradients, observed, changed) < 1e-6

    @pytest.mark.parametrize("decay", [0.0, 1e5], ids=["both steps perturbed", "the first one"])
    @pytest.mark.parametrize("error", [0.3, 0.03])
    def test_other_gradients_are_less_likely_and_so_are_those_in_the_wrong_step(self, weights, gradients, decay, error):
        law = law_of(Outpost())
        observed = sent(Outpost(decay=decay), gradients, weights)
        shifted = [g + 0.5 * stream(3, place).normal(*g.shape) for place, g in enumerate(gradients)]
        right = value(law, weights, gradients, observed, error)
        assert bool((right < value(law, weights, shifted, observed, error)).all())
        if decay:  # only then do the steps differ
            swapped = [g.flip(1) for g in gradients]
            assert bool((right < value(law, weights, swapped, observed, error)).all())


ERROR, ENTRIES = 0.25, 20


class TestAgainstSlowVersions:
    @pytest.fixture(scope="class")
    def setting(self):
        weights = {"w": stream(5, "w").normal(ENTRIES)}
        observed = stream(6, "o").normal(ENTRIES)
        guesses = [torch.stack([observed + 0.3 * stream(8, which, step).normal(ENTRIES) for step in range(2)])
                   for which in range(2)]  # fmt: skip
        floor = ERROR**2 * float((observed**2).mean())
        return weights, observed, guesses, 0.5 * float(weights["w"].var(correction=0)), floor

    def test_two_steps_are_the_convolution_of_one_and_one(self, setting, soft_share):
        """Noise without pruning, so that every outcome has a density; integrated numerically, entry by entry."""
        weights, observed, guesses, deviation, floor = setting
        law = of_schedule(RankedLaw(0.0, 0.4, 0.5), 1.0, 0.7)
        noised = law.counts(ENTRIES)[1]
        grid = np.linspace(-12, 12, 24001)

        def one_step(g, share, perturbed, places):
            # half of the floor for each of the halves whose sum is observed
            exact = stats.norm(g / 2, sqrt(floor / 2)).pdf(places)
            noisy = stats.norm(g / 2, sqrt(floor / 2 + deviation**2 / 4)).pdf(places)
            return (1 - share) * exact + share * noisy if perturbed else exact

        def plain(guess):
            shares = [soft_share((g**2).tolist(), noised, ERROR) for g in guess]
            total = 0.0
            for part, second in ((0.7, True), (0.3, False)):
                for i, o in enumerate(observed.tolist()):
                    first = one_step(float(guess[0, i]), shares[0][i], True, grid)
                    other = one_step(float(guess[1, i]), shares[1][i], second, o - grid)
                    part *= np.trapezoid(first * other, grid)
                total += part
            return -log(total)

        ours = [float(value(law, weights, [g[None]], [observed[None]], ERROR)) for g in guesses]
        assert ours[1] - ours[0] == pytest.approx(plain(guesses[1]) - plain(guesses[0]), rel=1e-9)

    @pytest.mark.parametrize(("pruned", "noised"), [(0.8, 0.4), (0.5, 0.3), (0.6, 0.0)])
    @pytest.mark.parametrize("zeros", [0, 12])
    def test_the_sum_is_the_mixture_over_what_may_have_become_of_both(self, setting, soft_share, pruned, noised, zeros):
        weights, observed, guesses, deviation, _ = setting
        observed = observed.clone()
        observed[:zeros] = 0
        law = of_schedule(RankedLaw(pruned, noised, 0.5), 1.0, 0.6)
        kept, changed = law.counts(ENTRIES)
        shares, floor = (0.3, 0.7), ERROR**2 * float((observed**2).mean())

        def outcomes(g, large, some, perturbed):
            if not perturbed:
                return [(1.0, g, 0.0)]
            between = (0.0, deviation**2) if changed > kept else (g, 0.0)
            return [(1 - some, 0.0, 0.0), (some * (1 - large), *between), (some * large, g, deviation**2)]

        def density(o, guess, ranks, pattern):
            total = 0.0
            for parts in product(*[outcomes(g, *r, p) for g, r, p in zip(guess, ranks, pattern, strict=True)]):
                if all(pattern) and all(part is not None and part[1:] == (0.0, 0.0) for part in parts):
                    continue
                chance = parts[0][0] * parts[1][0]
                mean = sum(w * part[1] for w, part in zip(shares, parts, strict=True))
                variance = sum(w**2 * part[2] for w, part in zip(shares, parts, strict=True)) + floor
                total += chance * exp(-((o - mean) ** 2) / (2 * variance)) / sqrt(2 * pi * variance)
            return total

        def plain(guess):
            most, least = max(kept, changed), min(kept, changed)
            sizes = [(g**2).tolist() for g in guess]
            some = [soft_share(size, most, ERROR) for size in sizes]
            large = [soft_share(size, least, ERROR) if least else np.zeros(ENTRIES) for size in sizes]
            total = 0.0
            for pattern, chance in (((True, True), 0.6), ((True, False), 0.4)):
                if all(pattern) != (zeros > 0):
                    continue
                for i, o in enumerate(observed.tolist()):
                    ranks = [(large[t][i], some[t][i]) for t in range(2)]
                    if zeros and o == 0:
                        chance *= (1 - some[0][i]) * (1 - some[1][i])
                    else:
                        chance *= density(o, guess[:, i].tolist(), ranks, pattern)
                total += chance
            return -log(total)

        ours = [float(value(law, weights, [g[None]], [observed[None]], ERROR, shares)) for g in guesses]
        assert ours[1] - ours[0] == pytest.approx(plain(guesses[1]) - plain(guesses[0]), rel=1e-8)


@pytest.mark.parametrize("law", [
    of_schedule(RankedLaw(0.8, 0.4, 0.8), *schedule(2, 0.1)), of_schedule(RankedLaw(0.5, 0.3, 0.8), 1.0, 0.5),
    of_schedule(RankedLaw(0.8, 0.0, 0.0), 1.0, 1.0), of_schedule(RankedLaw(0.0, 0.0, 0.0), 0.0, 0.0),
], ids=["paper", "little noise", "compression", "none"])  # fmt: skip
def test_the_derivative_equals_differences(weights, gradients, law):
    observed = sent(Outpost(decay=0.1 if law.noised else 0.0), gradients, weights)
    shifted = [0.9 * g + 0.05 for g in gradients]
    distance, step = law.of_steps(0.1, weights, (0.4, 0.6)), 1e-6
    way = [stream(4, place).normal(*g.shape) for place, g in enumerate(gradients)]
    ahead, behind = (
        distance([g + sign * step * d for g, d in zip(shifted, way, strict=True)], observed)[0] for sign in (1, -1)
    )
    slopes = distance(shifted, observed)[1]
    expected = sum((s * d).flatten(1).sum(1) for s, d in zip(slopes, way, strict=True))
    assert torch.allclose((ahead - behind) / (2 * step), expected, rtol=1e-4, atol=1e-3)


def test_weights_that_no_input_reaches_are_no_sign_of_a_perturbed_step():
    """They are most entries of a kernel that is larger than its images, and always zero; another tensor tells."""
    observed = [torch.zeros(2, 300), *(stream(5, place).normal(2, 20) for place in range(2))]
    observed[1][1, :9] = observed[2][1, :9] = 0
    assert mostly_zeros(observed, [108.0, 7.2, 7.2]).tolist() == [False, True]


class TestReading:
    def knows(self, name, steps, **settings):
        return Knowledge("any", {"defense": {"name": name, "settings": settings}, "local_steps": steps})

    def test_compression_is_a_pruning_in_every_step_and_no_defense_one_in_none(self):
        read = partial(self.knows, steps=3)
        law = RankedMixture().informed(read("gradient-compression", dropped=0.7)).distance
        assert law == RankedLaw(0.7, 0.0, 0.0, (0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0))
        assert RankedMixture().informed(read("none")).distance == RankedLaw(
            0.0, 0.0, 0.0, (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        )

    def test_a_step_moves_by_what_is_left_of_its_gradient(self, weights, gradients):
        for defense in (Outpost(noise_scale=1e-12), GradientCompression(0.7), NoDefense()):
            law = law_of(defense)
            left = sent(defense, [g[:, :1] for g in gradients], weights)
            for g, o in zip(gradients, left, strict=True):
                assert torch.allclose(law.moved(g[:, 0]), o, atol=1e-9)
        assert int((largest_only(gradients[1][:, 0], 3) != 0).sum()) == 3 * TRIALS

    def test_more_steps_than_can_be_told_apart_are_one_clear_line(self, weights):
        with pytest.raises(UserError, match="tells at most 4 steps of one round apart, not 5: set place: mean"):
            law_of(Outpost(), 5).of_steps(0.1, weights, (0.2,) * 5)
