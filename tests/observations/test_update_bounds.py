"""A bound on what anybody can read of an update is claimed only where clip and noise cover all that is sent."""

from dataclasses import replace

import pytest
import torch

from leaklab.captures.capture import capture
from leaklab.federated.checkpoint import CLIENTS
from leaklab.federated.engine import train
from leaklab.items.items import load_items
from leaklab.observations.update_bounds import UpdateBound, bound_of, total_variation
from leaklab.planning.plan import build_plan
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.text import TextAttackSpec
from leaklab.specs.training import TrainSpec

NOISE = {"name": "dp-sgd", "bound": 0.04, "sigma": 10.62}
DEAL = {"partition": {"name": "two-clients", "tests": 4}, "clients": [1]}
TRAINING = {
    "dataset": "digits", "partition": DEAL["partition"], "evaluate": ["own-test"],
    "model": {"name": "mlp", "hidden": 6, "dropout": 0.0}, "rates": [[0.05]], "rounds": 3, "seeds": [2],
}  # fmt: skip
SMALL = {"dataset": "digits", "images": {"count": 4}, "model": TRAINING["model"], "defense": NOISE}
CENTAUR = {"name": "centaur", "classifier_steps": 2}


def spec_of(**changes):
    algorithm = changes.get("algorithm")
    images = {"images": DEAL} if algorithm else {}
    return CaptureSpec.model_validate({**SMALL, **images, **changes})


@pytest.mark.parametrize("algorithm", [None, "scheme1", "scheme2", "ppsgd", CENTAUR])
def test_one_image_under_hyperfls_noise_leaves_every_algorithm_alike(algorithm):
    found = bound_of(spec_of(**({"algorithm": algorithm} if algorithm else {})))
    assert found.variation == pytest.approx(0.0750, abs=5e-5)
    assert found.sentence == (
        "no attacker can: total variation between any two images at most 7.5 %, so who guesses which of two it was is "
        "right 53.8 % of the time at most"
    )
    assert "twice the clip 0.04 of a sample's gradient" in found.reason


def test_every_noisy_capture_of_hyperfl_is_bounded_as_its_items_say():
    items = {key: item for key, item in load_items().items() if key in ("hyperfl/defenses-compared", "hyperfl/table3")}
    attacks = [job.spec for job in build_plan(items, ("small",)).jobs["attack"].values()]
    bounds = {spec.capture.defense.name: set() for spec in attacks}
    for spec in attacks:
        bounds[spec.capture.defense.name].add(bound_of(spec.capture).variation)
    assert bounds.pop("dp-sgd") == {total_variation(2, 10.62)}
    assert bounds.pop("clipping-noise") == {1.0}  # a clip of 4 under a noise of 0.1 proves nothing
    assert set(bounds) == {"none", "lrp", "outpost"}
    assert set.union(*bounds.values()) == {None}


def test_steps_and_repeated_rounds_compose():
    once = bound_of(spec_of()).variation
    for changes in ({"local_steps": 4}, {"rounds": 4}, {"local_steps": 2, "rounds": 2}):
        assert bound_of(spec_of(**changes)).variation == pytest.approx(total_variation(2, 10.62, releases=4))
        assert bound_of(spec_of(**changes)).variation > once
    assert not bound_of(spec_of(local_steps=400)).decides
    assert bound_of(spec_of(local_steps=400)).sentence == ""


def test_what_clients_keep_lets_one_image_move_the_gradients_of_a_whole_batch():
    assert bound_of(spec_of(algorithm="scheme1", batch_size=4)).variation == bound_of(spec_of()).variation
    kept = bound_of(spec_of(algorithm="ppsgd", batch_size=4))
    assert kept.variation == pytest.approx(total_variation(8, 10.62))
    assert "of all 4 samples" in kept.reason


def test_a_clip_of_the_whole_gradient_is_beside_noise_in_its_own_units():
    defense = {"name": "clipping-noise", "bound": 0.5, "sigma": 4.0}
    for batch, algorithm in ((1, "scheme1"), (4, "scheme1"), (4, "ppsgd")):
        found = bound_of(spec_of(defense=defense, algorithm=algorithm, batch_size=batch))
        assert found.variation == pytest.approx(total_variation(1.0, 4.0))
    assert bound_of(spec_of(defense="clipping-noise")).variation == pytest.approx(total_variation(8.0, 0.1))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"defense": "none"}, "defense 'none' does not both clip"),
        ({"defense": "additive-noise"}, "defense 'additive-noise' does not both clip"),
        ({"defense": "gradient-clipping"}, "defense 'gradient-clipping' does not both clip"),
        ({"defense": {**NOISE, "sigma": 0}}, "there is no noise"),
        ({"mode": "train"}, "running statistics are sent as they are"),
        ({"server": {"name": "imprint"}}, "a malicious server may ask more often"),
        ({"algorithm": "hyperfl"}, "what clients of algorithm 'hyperfl' send was not examined"),
        ({"algorithm": "local-only"}, "algorithm 'local-only'"),
    ],
)
def test_where_something_is_sent_in_the_clear_no_bound_is_claimed(changes, reason):
    found = bound_of(spec_of(**changes))
    assert found.variation is None
    assert reason in found.reason
    assert (found.decides, found.sentence) == (False, "")


def test_sentences_have_no_bound():
    item = {key: one for key, one in load_items().items() if key == "lrp/table7"}
    for job in build_plan(item, ("demo",)).jobs["attack-text"].values():
        assert isinstance(job.spec, TextAttackSpec)
        assert bound_of(job.spec.capture).variation is None


@pytest.mark.parametrize(("variation", "decides"), [(0.0, True), (0.2, True), (0.21, False), (1.0, False)])
def test_a_bound_that_leaves_a_good_guess_decides_nothing(variation, decides):
    assert UpdateBound(variation, "").decides is decides
    assert bool(UpdateBound(variation, "").sentence) is decides


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("algorithm", ["scheme1", "ppsgd", CENTAUR])
@pytest.mark.parametrize("defense", [NOISE, {"name": "clipping-noise", "bound": 0.04, "sigma": 0.4248}])
def test_all_that_a_server_sees_of_a_replaced_image_is_below_the_noise_by_as_much_as_is_claimed(
    dataset, algorithm, batch, defense
):
    """Both captures draw the same noise, so that their difference is the image's alone."""
    deal = [torch.arange(20 * client, 20 * client + 12) for client in range(3)]
    shared = {"algorithm": algorithm, "batch_size": batch, "local_steps": 1, "dtype": "float64"}
    training = TrainSpec.model_validate({**TRAINING, **shared, "until": 1, "local_steps": 2})
    done = train(training, dataset, deal, tests=[torch.arange(4)] * len(deal))
    weights = {**done.weights, **{CLIENTS + name: value for name, value in done.clients.items()}}
    spec = spec_of(**shared, defense=defense, state={"train": training, "replicate": 0}, rate=0.05)
    claimed = bound_of(spec).variation

    seen, _, truth = capture(spec, dataset, deal, weights)
    used = truth.trials[0]["image"]
    place = used if isinstance(used, int) else used[0]
    images, labels = dataset.train_images.clone(), dataset.train_labels.clone()
    images[place], labels[place] = 255 - images[place], (labels[place] + 5) % 10
    other, _, other_truth = capture(spec, replace(dataset, train_images=images, train_labels=labels), deal, weights)
    assert not torch.equal(truth.images, other_truth.images)

    clip, noise = defense["bound"], defense["sigma"]
    deviation = noise * clip / batch if defense is NOISE else noise
    apart = torch.cat([(seen.update[name] - other.update[name]).flatten() for name in seen.update]).norm()
    assert 0 < total_variation(float(apart), deviation) <= claimed + 1e-12
    bare = capture(spec.model_copy(update={"defense": spec_of(defense="none").defense}), dataset, deal, weights)[0]
    for name, value in seen.update.items():  # no tensor goes without noise
        assert float((value - bare.update[name]).std()) == pytest.approx(deviation, rel=0.9)
    for part in ("weights", "buffers", "own"):
        one, another = getattr(seen, part), getattr(other, part)
        assert set(one) == set(another)
        assert all(torch.equal(one[name], another[name]) for name in one)
