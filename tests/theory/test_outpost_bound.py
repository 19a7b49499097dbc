"""OUTPOST's theorem: the stacked perturbation is the defense's, the bound without it is the plain one, and can fail."""

from dataclasses import replace

import pytest
import torch

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.outpost import Outpost
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.convergence import Constants, corrected
from leaklab.theory.convergence_bound import ConvergenceBound, declared_steps
from leaklab.theory.outpost_bound import OutpostBound, Perturbation, corrected_term, place_in_round, with_term

torch.set_num_threads(1)
SMALL = {"clients": 4, "participants": 2, "local_steps": 3, "steps": 300, "repeats": 4, "samples": 6, "features": 3}
REPEATS, CLIENTS = 2, 3


def plain(items, total, label):
    return items


def numbers(**changes):
    return list(OutpostBound(**{**SMALL, "classes": 3, "series": True, **changes}).run(0, None, plain))


def series(found, metric):
    return [one.value for one in found if one.metric == metric and one.index is not None]


def value(found, metric):
    (one,) = (one.value for one in found if one.metric == metric and "T" not in one.row and one.index is None)
    return one


@pytest.fixture(scope="module")
def found():
    return numbers()


def tensors(name):
    return stream(0, name).normal(REPEATS, CLIENTS, 4, 5)


@pytest.mark.parametrize(("share", "noised"), [(0.8, 0.4), (0.5, 0.25)])
def test_a_perturbed_step_is_that_of_the_defense(share, noised):
    """Where noise falls, what is pruned, and how strong the noise is: client by client with ``defenses/outpost.py``."""
    gradients, weights = tensors("gradients"), 0.7 * tensors("weights")
    step = Perturbation(3, REPEATS, 5, noise_scale=0.8, pruned=share, noised=noised, decay=0.1)
    perturbed = step(gradients, weights)
    own = [stream(3, "outpost", repeat) for repeat in range(REPEATS)]
    for repeat in range(REPEATS):
        own[repeat].uniform(CLIENTS)
        noise = own[repeat].normal(CLIENTS, 4, 5)
        for client in range(CLIENTS):
            context = ClientContext(1.0, 0, 0).at(Alone(0, {"w": weights[repeat, client]}))
            gradient = {"w": gradients[repeat, client]}
            kept = Outpost(pruned=share, noised=noised, parts="prune").gradient(gradient, context)["w"]
            both = Outpost(pruned=share, noised=noised).gradient(gradient, context)["w"]
            added = perturbed[repeat, client] - kept
            assert torch.equal(added != 0, both != kept)
            risk = weights[repeat, client].var(correction=0)
            torch.testing.assert_close(added, 0.8 * risk * noise[client] * (both != kept))


def test_what_is_kept_of_the_way_is_the_largest():
    gradients, weights = tensors("gradients"), 0.5 * tensors("weights")
    step = Perturbation(3, REPEATS, 1, noise_scale=0.8, pruned=0.8, noised=0.4, decay=0.1)
    for scale in (1.0, 2.0, 0.5):
        step(scale * gradients, weights)
    risk = float(weights.var((-2, -1), correction=0).max())
    assert step.single_square == pytest.approx((0.8 * risk) ** 2)
    assert step.noise_square == pytest.approx(8 * (0.8 * risk) ** 2)
    sizes = (2 * gradients).square().flatten(2).sort(-1).values
    assert step.pruned_square == pytest.approx(float(sizes[..., :16].sum(-1).max()))


def test_rounds_begin_after_the_means():
    """The descent takes the mean after the steps E - 1, 2 E - 1, ...; each first step after it is perturbed."""
    assert [place_in_round(t, 5) for t in range(1, 12)] == [1, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2]
    assert [place_in_round(t, 1) for t in range(1, 4)] == [1, 1, 1]
    gradients, weights = tensors("gradients"), tensors("weights")
    step = Perturbation(3, REPEATS, 3, noise_scale=0.8, pruned=0.8, noised=0.4, decay=1e6)
    changed = [bool((step(gradients, weights) != gradients).any()) for _ in range(7)]
    assert changed == [True, False, True, False, False, True, False]


def test_without_noise_and_pruning_it_is_the_plain_bound_and_gap():
    """The same gaps and the same bound as the check of the other theorem gives for fixed rates."""
    bare = numbers(noise_scale=0.0, pruned=0.0)
    other = list(ConvergenceBound(**SMALL, classes=3, perturbation=False, series=True).run(0, None, plain))
    assert series(bare, "gap") == series(other, "gap")
    for form in ("bound_printed", "bound_corrected"):
        assert series(bare, form) == pytest.approx(series(other, "bound_corrected"), rel=1e-12)
    assert value(bare, "added_square_corrected") == 0


def test_the_bound_with_a_term_is_the_printed_formula():
    """B = sum p_k^2 (sigma_k^2 + S) + 6 L Gamma + 8 (E-1)^2 (S + G^2), C = (N-K)/(N-1) 4/K E^2 (S + G^2)."""
    one = Constants(2.0, 0.1, (0.3, 0.5, 0.7), 1.5, 0.2, 4.0, participants=2, local_steps=5, perturbed=False)
    term, step = 0.9, 50
    kappa, gamma = 20.0, 160.0
    b = sum((v + term) / 9 for v in one.variances) + 6 * 2.0 * 0.2 + 8 * 16 * (term + 1.5)
    c = (3 - 2) / (3 - 1) * 4 / 2 * 25 * (term + 1.5)
    expected = kappa / (gamma + step - 1) * (2 * (b + c) / 0.1 + 0.1 * gamma / 2 * 4.0)
    assert corrected(with_term(one, term), step) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_the_corrected_term_bounds_what_the_defense_does_to_the_variance(share):
    """Over many draws of a sample and its noise, with weights of large variance; the printed term does not."""
    samples, weights = tensors("samples").flatten(0, 1)[:5], 1.3 * tensors("weights")[:1, :1]
    mean = samples.mean(0)
    variance = float((samples - mean).square().sum((-2, -1)).mean())
    chosen = stream(1, "draws").integers(0, 5, 4000)
    step = Perturbation(3, 1, 1, noise_scale=0.8, pruned=share, noised=0.4, decay=0.1)
    drawn = step(samples[chosen][None], weights.expand(1, 4000, 4, 5))[0]
    spread = float((drawn - mean).square().sum((-2, -1)).mean())
    one = Constants(1.0, 1.0, (variance,), 1.0, 0.0, 1.0, 1, 1, perturbed=False)
    assert spread <= variance + 1.1 * corrected_term(one, step)
    if share == 0:
        assert spread == pytest.approx(variance + corrected_term(one, step), rel=0.05)
        assert spread > variance + step.single_square


def test_the_noise_term_as_printed_is_smaller(found):
    assert value(found, "added_square_printed") < value(found, "added_square_corrected")
    pairs = zip(series(found, "bound_printed"), series(found, "bound_corrected"), strict=True)
    assert all(a < b for a, b in pairs)


def test_the_bound_grows_with_the_noise_scale(found):
    bounds = [value(numbers(noise_scale=scale, series=False), "bound") for scale in (0.0, 0.4)]
    assert bounds[0] < bounds[1] < value(found, "bound")


def test_pruning_leaves_a_gap_that_noise_alone_does_not(found):
    alone = numbers(pruned=0.0)
    assert series(alone, "gap")[-1] < series(found, "gap")[-1]
    assert {tuple(one.row) for one in alone if one.index is not None} == {("noise_scale", "pruning")}
    assert {one.row["pruning"] for one in alone} == {False}


def test_every_series_has_a_value_at_every_declared_step(found):
    assert series(found, "step") == declared_steps(300).tolist()
    for metric in ("gap", "bound_printed", "bound_corrected"):
        assert len(series(found, metric)) == len(series(found, "step"))
    assert numbers() == found
    assert numbers(series=False) == [one for one in found if one.index is None]


def test_a_gap_above_the_bound_would_be_seen(monkeypatch):
    monkeypatch.setattr("leaklab.theory.outpost_bound.corrected", lambda constants, step: 1e-7)
    assert all(one.value > 1 for one in numbers() if one.metric.startswith("largest_gap_over"))


@pytest.mark.parametrize("changes", [{"participants": 5}, {"repeats": 1}, {"steps": 3}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(UserError, match="outpost-bound: needs"):
        numbers(**changes)


@pytest.mark.parametrize("changes", [{"noise_scale": -1.0}, {"pruned": 1.0}, {"noised": 0.0}, {"decay": -0.1}])
def test_settings_out_of_range_are_refused_while_planning(changes):
    with pytest.raises(UserError, match="outpost-bound"):
        plugins.check("theory", "outpost-bound", changes)
    assert replace(OutpostBound(), series=True).series
