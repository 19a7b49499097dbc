"""One unit for the weight of every prior: the matching loss of a zero gradient.

Every attack that has a prior is shown an update and the same update ten times as large. What the prior adds, divided by
its weight and by the matching loss of a zero gradient, is the prior itself, both times and whatever is matched.
"""

from dataclasses import dataclass, fields
from functools import partial

import pytest
import torch

from leaklab.attacks import delta_ig, ig, update_dlg
from leaklab.attacks.adaptive.emulation import after_clipping
from leaklab.attacks.adaptive.noise import MatchedNoise
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.latents.landscape import LatentMatching, prior_divergence
from leaklab.attacks.matching.delta import Samples, Surrogate
from leaklab.attacks.matching.distances import profiled_scale, squared_l2
from leaklab.attacks.search.priors import total_variation
from leaklab.observations.base import Knowledge
from leaklab.records import plugins
from leaklab.records.streams import stream

TRIALS, WEIGHT = 3, 0.25
PRIORS = {"csdlg": "total_variation", "delta-ig": "smoothness", "ig": "total_variation", "ggl": "penalty"}
TEXT_PRIORS = {"mean-cosine": "norm_weight"}
DISTANCES = [squared_l2, profiled_scale, after_clipping, MatchedNoise(sigma=0.01).distance]
FACTORS = (1.0, 10.0)


@dataclass
class SeenError(Exception):
    """The objective that an attack hands to its search."""

    objective: object


@pytest.fixture
def objective_of(monkeypatch, digits, observe, knowledge):
    """Return what an attack minimises, caught where its search begins."""

    def caught(objective, *arguments):
        raise SeenError(objective)

    for room in (ig, delta_ig, update_dlg):
        monkeypatch.setattr(room, "signed_adam", caught)

    def make(name, factor, distance=None, **settings):
        images, labels = digits[0][:TRIALS, None], digits[1][:TRIALS, None]
        observation = observe(images, labels, [factor] * TRIALS)
        facts = dict(knowledge.facts) | {"labels": labels.tolist()}
        attack = plugins.load("attacks", name, {"label_rule": "known"} | settings)
        with pytest.raises(SeenError) as seen:
            attack.reconstruct(Case(observation, Knowledge("any", facts), Budget(1, 1), None, distance))
        return seen.value.objective

    return make


def images_at(points):
    return points[:, :64].view(TRIALS, 1, 1, 8, 8)


def held(with_prior, plain, unit, prior):
    """Whether the prior enters with ``WEIGHT`` in units of the matching loss of a zero gradient."""
    assert bool((unit > 0).all())
    return torch.allclose((with_prior - plain) / (WEIGHT * unit), prior, rtol=1e-6)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("distance", [None, *DISTANCES])
def test_ig(objective_of, distance, factor):
    objective = objective_of("ig", factor, distance, total_variation=WEIGHT)
    points, rows = stream(1, "x").uniform(TRIALS, 64), torch.arange(TRIALS)
    plain = objective.objective
    prior = total_variation(images_at(points))
    assert held(objective(points, rows)[0], plain(points, rows)[0], plain.loss_of_nothing(), prior)
    assert torch.allclose(plain.loss_of_nothing(), torch.ones(TRIALS).double())


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("distance", [None, *DISTANCES])
def test_csdlg(objective_of, distance, factor):
    settings = {"optimizer": "signed-adam", "boxed": False, "total_variation": WEIGHT}
    objective = objective_of("csdlg", factor, distance, **settings)
    points, rows = stream(1, "x").uniform(TRIALS, 64), torch.arange(TRIALS)
    plain = objective.objective
    prior = total_variation(images_at(points))
    assert held(objective(points, rows)[0], plain(points, rows)[0], plain.loss_of_nothing(), prior)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("matching", delta_ig.MATCHINGS)
def test_delta_ig(objective_of, matching, factor):
    objective = objective_of("delta-ig", factor, matching=matching, smoothness=WEIGHT)
    plain = objective.objective
    points, rows = stream(1, "x").uniform(TRIALS, plain.unknowns), torch.arange(TRIALS)
    prior = total_variation(images_at(points))
    assert held(objective(points, rows)[0], plain(points, rows)[0], plain.loss_of_nothing(), prior)


@pytest.mark.parametrize("factor", FACTORS)
def test_the_place_of_the_surrogate(digits, observe, network_of, factor):
    observation = observe(digits[0][:TRIALS, None], digits[1][:TRIALS, None], [-0.01 * factor] * TRIALS, kind="delta")
    samples = Samples((1, 1, 8, 8), 10, digits[1][:TRIALS, None])
    observed = list(observation.update.values())
    network = network_of().eval().requires_grad_(requires_grad=False)
    kept, free = (Surrogate(network, observed, samples, penalty) for penalty in (WEIGHT, 0.0))
    points, rows = stream(1, "x").uniform(TRIALS, kept.unknowns), torch.arange(TRIALS)
    prior = (kept.place(points[:, -1:]) - 0.5) ** 2
    assert held(kept(points, rows)[0], free(points, rows)[0], free.loss_of_nothing(), prior)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("distance", DISTANCES)
def test_ggl(waves, digits, observe, network_of, distance, factor):
    labels = digits[1][:TRIALS]
    observation = observe(digits[0][:TRIALS, None], labels[:, None], [factor] * TRIALS)
    observed = list(observation.update.values())
    network = network_of().eval().requires_grad_(requires_grad=False)
    kept, free = (LatentMatching(waves(), network, observed, labels, distance, weight) for weight in (WEIGHT, 0.0))
    points, rows = stream(1, "z").normal(TRIALS, 4), torch.arange(TRIALS)
    nothing = distance([torch.zeros_like(value) for value in observed], observed)[0] / len(observed)
    assert held(kept(points, rows)[0], free(points, rows)[0], nothing, prior_divergence(points))


SCALE_FREE = {
    "ig": ("ig", {"total_variation": 0.1}, None),
    "ig, profiled": ("ig", {"total_variation": 0.1}, profiled_scale),
    "csdlg": ("csdlg", {"total_variation": 0.1, "optimizer": "signed-adam", "boxed": False}, None),
    "nominal": ("delta-ig", {"matching": "nominal", "smoothness": 0.1}, None),
    "joint": ("delta-ig", {"matching": "joint-rates", "smoothness": 0.1}, None),
    "profiled": ("delta-ig", {"matching": "profiled-rates", "smoothness": 0.1}, None),
    "surrogate": ("delta-ig", {"matching": "surrogate", "smoothness": 0.1}, None),
    "annealed": ("annealed-map", {}, profiled_scale),
    "unrolled": ("annealed-map", {"matching": "unrolled"}, None),
}
PRESCRIBED = ("nominal", "joint")
"""They start from the prescribed rate, and a delta is that rate times the gradient: ten times both is ten times it."""


@pytest.mark.parametrize("case", SCALE_FREE)
def test_ten_times_the_observation_has_the_same_optimum(digits, observe, knowledge, waves, case):
    """The whole search ends in the same images, prior and all, whatever the size of the matching loss."""
    name, settings, distance = SCALE_FREE[case]
    images, labels = digits[0][:TRIALS, None], digits[1][:TRIALS, None]
    found = []
    for factor in FACTORS:
        prescribed = factor if case in PRESCRIBED else 1.0
        facts = dict(knowledge.facts) | {"labels": labels.tolist()}
        given = Knowledge("any", facts | {"nominal_rate": prescribed * facts["nominal_rate"]})
        # the unrolled steps are those of a client whose rates are that much larger
        believed = {"client_factor": factor} if case == "unrolled" else {}
        attack = plugins.load("attacks", name, {"label_rule": "known"} | settings | believed)
        generator = waves() if name == "annealed-map" else None
        # where the surrogate takes its gradient moves with the update: what it is scaled by stays small
        size = factor / prescribed * (1e-6 if case == "surrogate" else 1.0)
        seen = observe(images, labels, [size] * TRIALS)
        found.append(attack.reconstruct(Case(seen, given, Budget(12, 1), partial(stream, 0), distance, generator)))
    start = attack.reconstruct(Case(seen, given, Budget(1, 1), partial(stream, 0), distance, generator))
    assert torch.allclose(found[1].images, found[0].images, atol=1e-4)
    assert not torch.allclose(found[0].images, start.images, atol=1e-2)


def test_no_attack_with_a_prior_is_left_out():
    """Whatever attack has a setting that sounds like a prior's weight is tested above, or on text."""
    words = {"smoothness", "total_variation", "penalty", "norm_weight", "prior"}
    for room, known in (("attacks", PRIORS), ("attacks/text", TEXT_PRIORS)):
        found = {
            name: field.name
            for name in plugins.available(room)
            for field in fields(plugins.load(room, name))
            if field.name in words
        }
        assert found == known
