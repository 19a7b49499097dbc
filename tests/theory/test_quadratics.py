"""Exact moments of averaging on quadratics, against the mean over every outcome of rates, noise and participants."""

from itertools import combinations, product

import numpy as np
import pytest
import torch

from leaklab.theory.quadratics import Plan, Quadratics, descend, made_up_quadratics

torch.set_num_threads(1)
# law of two values with the mean and the second moment of U(0, 2)
FACTORS = (1 - 3**-0.5, 1 + 3**-0.5)
UNIFORM = 4 / 3


def quadratics(shares=(0.5, 0.5), noise=(0.3, 0.8)):
    """Two clients in one dimension: 3/2 (w - 1)^2 and 1/2 (w + 2)^2, with noise of the given deviations."""
    return Quadratics(
        curvatures=torch.tensor([[[3.0, 1.0]]], dtype=torch.float64),
        pulls=torch.tensor([[[3.0, -2.0]]], dtype=torch.float64),
        noises=torch.tensor([[noise]], dtype=torch.float64) ** 2,
        shares=torch.tensor([shares], dtype=torch.float64),
    )


def run(problem, participants=2, local_steps=2, second_moment=UNIFORM, rates=(0.2, 0.1, 0.07), start=4.0):
    steps = torch.tensor([[rate] for rate in rates], dtype=torch.float64)
    plan = Plan(participants, local_steps, second_moment, steps)
    return descend(problem, plan, torch.full((1, 1), start, dtype=torch.float64))


def outcomes(problem, participants, local_steps, rates, start):
    """Yield what each step shows in each outcome, all equally likely: step -> name -> value."""
    h, r = problem.curvatures[0, 0].numpy(), problem.pulls[0, 0].numpy()
    deviations, p = problem.noises[0, 0].sqrt().numpy(), problem.shares[0].numpy()
    best = (p * r).sum() / (p * h).sum()
    each = list(product(product(FACTORS, repeat=2), product((-1, 1), repeat=2)))
    subsets = list(combinations(range(2), participants))
    for drawn in product(each, repeat=len(rates)):
        for chosen in product(subsets, repeat=len(rates)):
            w, seen = np.full(2, start), []
            for step, (factors, signs) in enumerate(drawn):
                exact = h * w - r
                sent = exact + np.array(signs) * deviations
                mean, move = (p * w).sum(), rates[step] * np.array(factors) * sent
                seen.append({
                    "distances": (mean - best) ** 2,
                    "gaps": (p * h).sum() / 2 * (mean - best) ** 2,
                    "drifts": (p * (w - mean) ** 2).sum(),
                    "noises": (p * (move - rates[step] * exact)).sum() ** 2,
                    "ahead": ((p * (w - move)).sum() - best) ** 2,
                    "squares": sent**2,
                })  # fmt: skip
                w = w - move
                if (step + 2) % local_steps == 0:
                    weights = p if participants == 2 else np.bincount(chosen[step], minlength=2) / participants
                    w = np.full(2, (weights * w).sum())
            yield seen, ((p * w).sum() - best) ** 2


@pytest.mark.parametrize(
    ("participants", "local_steps", "shares"), [(2, 2, (0.5, 0.5)), (2, 3, (0.8, 0.2)), (1, 2, (0.5, 0.5))]
)
def test_moments_are_means_over_all_outcomes(participants, local_steps, shares):
    problem, rates = quadratics(shares), (0.2, 0.1)
    known = list(outcomes(problem, participants, local_steps, rates, 4.0))
    course = run(problem, participants, local_steps, rates=rates)
    for name in ("distances", "gaps", "drifts", "noises", "ahead"):
        expected = [np.mean([seen[step][name] for seen, _ in known]) for step in range(2)]
        assert getattr(course, name)[:2, 0].tolist() == pytest.approx(expected, rel=1e-12, abs=1e-14), name
    assert float(course.distances[-1, 0]) == pytest.approx(np.mean([last for _, last in known]), rel=1e-12)
    squares = np.max([np.mean([seen[step]["squares"] for seen, _ in known], axis=0) for step in range(2)], axis=0)
    assert course.squares[0].tolist() == pytest.approx(squares, rel=1e-12)


def test_without_noise_one_client_goes_down_the_closed_form():
    """Alone with curvature 3 and fixed rates: the distance is that of the start times the product of (1 - 3 rate)."""
    alone = Quadratics(*(torch.tensor([[[value]]], dtype=torch.float64) for value in (3.0, 3.0, 0.0)),
                       torch.ones(1, 1, dtype=torch.float64))  # fmt: skip
    course = run(alone, participants=1, local_steps=1, second_moment=1.0)
    factors = np.cumprod([1.0, *((1 - 3 * rate) ** 2 for rate in (0.2, 0.1, 0.07))])
    assert course.distances[:, 0].tolist() == pytest.approx(9 * factors, rel=1e-12)
    assert course.drifts.abs().max() < 1e-12


def test_constants_are_those_of_the_losses():
    """Optimum of 0.8 * 3/2 (w-1)^2 + 0.2 * 1/2 (w+2)^2: 2 / 2.6; the clients' own minima are 0."""
    problem = quadratics((0.8, 0.2))
    best = (0.8 * 3 - 0.2 * 2) / (0.8 * 3 + 0.2)
    assert float(problem.optimum) == pytest.approx(best, rel=1e-12)
    lowest = 0.8 * 1.5 * (best - 1) ** 2 + 0.2 * 0.5 * (best + 2) ** 2
    assert float(problem.heterogeneity) == pytest.approx(lowest, rel=1e-12)
    assert (float(problem.smoothness), float(problem.convexity)) == (3.0, 1.0)


def test_scaled_losses_have_the_same_mean_with_equal_shares():
    """Eq. (8): sum p_k L_k is the mean of N p_k L_k; noise scales with the gradient."""
    problem, scaled = quadratics((0.8, 0.2)), quadratics((0.8, 0.2)).scaled()
    assert scaled.shares.tolist() == [[0.5, 0.5]]
    torch.testing.assert_close(scaled.optimum, problem.optimum)
    torch.testing.assert_close(scaled.heterogeneity, problem.heterogeneity)
    torch.testing.assert_close(scaled.curvatures[0, 0], torch.tensor([4.8, 0.4], dtype=torch.float64))
    torch.testing.assert_close(scaled.noises, problem.noises * torch.tensor([1.6, 0.4], dtype=torch.float64) ** 2)


def test_one_step_on_scaled_losses_is_one_weighted_step():
    """Eq. (9): with E = 1 and everyone taking part both ways of weighting are the same descent."""
    problem = quadratics((0.8, 0.2))
    scaled, weighted = run(problem.scaled(), local_steps=1), run(problem, local_steps=1)
    torch.testing.assert_close(scaled.distances, weighted.distances)
    torch.testing.assert_close(scaled.gaps, weighted.gaps)


def test_problems_of_a_batch_go_as_they_would_alone():
    one, other = quadratics(), quadratics((0.5, 0.5), noise=(2.0, 0.0))
    both = Quadratics(*(torch.cat([getattr(one, name), getattr(other, name)]) for name in vars(one)))
    plan = Plan(1, 2, UNIFORM, torch.tensor([[0.2, 0.1], [0.1, 0.05]], dtype=torch.float64))
    course = descend(both, plan, torch.full((2, 1), 4.0, dtype=torch.float64))
    for place, (problem, rates) in enumerate([(one, (0.2, 0.1)), (other, (0.1, 0.05))]):
        alone = run(problem, 1, rates=rates)
        torch.testing.assert_close(course.distances[:, [place]], alone.distances)
        torch.testing.assert_close(course.squares[[place]], alone.squares)


def test_partial_participation_with_unequal_shares_is_refused():
    """Assumption 5: the mean of those drawn is right in the mean for equal shares only."""
    with pytest.raises(ValueError, match="equal shares"):
        run(quadratics((0.8, 0.2)), participants=1)


def test_made_up_problems_have_the_condition_that_was_asked_for():
    shares = torch.full((5, 3), 1 / 3, dtype=torch.float64)
    problem, start = made_up_quadratics(0, shares, 2, 8.0)
    torch.testing.assert_close(problem.smoothness, torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(problem.convexity, torch.full((5,), 1 / 8, dtype=torch.float64))
    assert (problem.noises.shape, start.shape) == ((5, 2, 3), (5, 2))
    assert bool((problem.heterogeneity > 0).all())
