"""A capture is one round of local training, seen from the server."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.captures.capture import capture
from leaklab.captures.private_images import choose_images
from leaklab.data.dataset import unit_range
from leaklab.models.cnns import DLGLeNet
from leaklab.observations import files
from leaklab.observations.threat_models import FACTS, OWN, THREAT_MODELS
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.specs.capture import CaptureSpec, ImageChoice


def spec(**changes):
    fields = {"dataset": "digits", "images": {"count": 4, "seed": 1}, "model": "dlg-lenet", "rate": 0.05}
    return CaptureSpec.model_validate({**fields, **changes})


def true_gradients(truth, trial):
    network = DLGLeNet().initialised((1, 8, 8), 10, 0, torch.float64)
    loss = F.cross_entropy(network(truth.images[trial]), truth.labels[trial])
    return torch.autograd.grad(loss, list(network.parameters()))


def test_undefended_capture_is_the_gradient(dataset):
    observation, _, truth = capture(spec(), dataset)
    for trial in range(4):
        for seen, expected in zip(observation.update.values(), true_gradients(truth, trial), strict=True):
            assert torch.allclose(seen[trial], expected, rtol=0, atol=1e-11)


def test_delta_and_gradient_differ_by_the_assumed_rate(dataset):
    gradient, delta = (capture(spec(kind=kind, local_steps=3), dataset)[0] for kind in ("gradient", "delta"))
    for name, value in delta.update.items():
        assert torch.allclose(gradient.update[name], -value / (0.05 * 3))


def test_client_weight_scales_the_rate_and_the_server_does_not_know(dataset):
    plain, heavy = (capture(spec(client_weight=weight), dataset) for weight in (1.0, 2.0))
    assert torch.allclose(heavy[2].rates, 2 * plain[2].rates)
    assert heavy[1] == plain[1]
    for name, value in plain[0].update.items():
        assert torch.allclose(heavy[0].update[name], 2 * value, atol=1e-11)


def test_lrp_hides_one_factor_per_trial_and_it_is_in_the_truth_only(dataset):
    lrp = spec(defense="lrp", draws=3)
    observation, knowledge, truth = capture(lrp, dataset)
    factors = truth.rates[:, 0] / lrp.rate
    assert len(factors.unique()) == 12
    assert ((factors >= 0) & (factors < 2)).all()
    for trial in (0, 5, 11):
        for seen, expected in zip(observation.update.values(), true_gradients(truth, trial), strict=True):
            assert torch.allclose(seen[trial], factors[trial] * expected, rtol=0, atol=1e-11)
    assert knowledge.facts["defense"] == {"name": "lrp", "settings": {}}
    assert knowledge.facts["nominal_rate"] == lrp.rate


def test_a_trial_does_not_depend_on_how_many_there_are(dataset):
    few, many = (
        capture(spec(defense="lrp", draws=draws, images={"count": count, "seed": 1}), dataset)
        for draws, count in ((1, 2), (3, 4))
    )
    rows = [many[2].trials.index(trial) for trial in few[2].trials]
    assert torch.equal(few[2].rates, many[2].rates[rows])
    assert torch.equal(few[2].images, many[2].images[rows])
    for name, value in few[0].update.items():
        assert torch.allclose(value, many[0].update[name][rows], rtol=0, atol=1e-11)


def test_facts_are_those_of_the_threat_model(dataset):
    withheld = {"honest-but-curious": {"labels"}, "blind-rate": {"labels", "nominal_rate"}}
    everything = capture(spec(threat_model="honest-but-curious-with-labels"), dataset)
    assert everything[1].facts["labels"] == everything[2].labels.tolist()
    for name, missing in withheld.items():
        facts = capture(spec(threat_model=name, kind="delta"), dataset)[1].facts
        assert set(everything[1].facts) - set(facts) == missing


def test_a_letters_threat_model_says_what_the_letter_stands_for(dataset):
    def facts(name):
        return set(capture(spec(threat_model=name, kind="delta", defense="lrp"), dataset)[1].facts)

    basic = {"architecture", "weights", "num_classes", "input_shape", "input_range", "batch_size"}
    training = {"nominal_rate", "local_steps", "step_factors"}
    assert facts("informed") == basic
    assert facts("informed+y+d") == basic | {"labels", "defense"}
    assert facts("parameter-aware") == facts("data-enhanced") == basic | training


def test_what_an_attacker_brings_along_is_in_no_file(dataset):
    for name in THREAT_MODELS:
        assert not OWN & set(capture(spec(threat_model=name, kind="delta"), dataset)[1].facts)
    assert set(files.Facts.model_fields) == set(FACTS) - OWN


def test_how_clients_step_is_a_fact_where_it_is_not_plain(dataset):
    assert not capture(spec(), dataset)[1].knows("optimizer")
    momentum = Component(name="sgd", settings={"momentum": 0.9})
    facts = capture(spec(optimizer=momentum, weight_decay=0.01), dataset)[1].facts
    assert facts["optimizer"] == {"name": "sgd", "settings": {"momentum": 0.9}}
    assert facts["weight_decay"] == 0.01


def test_a_gradient_without_the_rate_is_refused(dataset):
    with pytest.raises(UserError, match="kind: delta"):
        capture(spec(threat_model="blind-rate"), dataset)


def test_batches_group_the_images(dataset):
    observation, _, truth = capture(spec(batch_size=2, draws=2), dataset)
    assert truth.images.shape == (4, 2, 1, 8, 8)
    assert [trial["draw"] for trial in truth.trials] == [0, 1, 0, 1]
    assert len(truth.trials[0]["image"]) == 2
    for seen, expected in zip(observation.update.values(), true_gradients(truth, 3), strict=True):
        assert torch.allclose(seen[3], expected, rtol=0, atol=1e-11)
    with pytest.raises(UserError, match="do not fill batches of 3"):
        capture(spec(batch_size=3), dataset)


def test_truth_names_the_images(dataset):
    truth = capture(spec(), dataset)[2]
    for trial, image in zip(truth.trials, truth.images, strict=True):
        assert torch.equal(unit_range(dataset.test_images[trial["image"]], torch.float64), image[0])


@pytest.mark.parametrize("of_label", [0, 1, 3])
def test_a_label_can_be_drawn_so_often_and_no_more(dataset, of_label):
    choice = ImageChoice(count=20, seed=2, label=3, of_label=of_label)
    chosen = choose_images(choice, dataset.test_images, dataset.test_labels)
    assert len(set(chosen.tolist())) == 20
    assert int((dataset.test_labels[chosen] == 3).sum()) == of_label
    free = choose_images(ImageChoice(count=40, seed=2), dataset.test_images, dataset.test_labels)
    others = [i for i in free.tolist() if dataset.test_labels[i] != 3][: 20 - of_label]
    assert [i for i in chosen.tolist() if dataset.test_labels[i] != 3] == others


def test_how_often_a_label_is_drawn_has_to_be_possible():
    with pytest.raises(ValueError, match="how many of the 4 images have the label"):
        ImageChoice(count=4, label=1, of_label=5)
    with pytest.raises(ValueError, match="state label"):
        ImageChoice(count=4, of_label=1)
    with pytest.raises(ValueError, match="are of drawn images"):
        ImageChoice(count=1, label=1, indexes=(3,))


def test_images_without_contrast_are_passed_over():
    images = torch.zeros(40, 1, 4, 4, dtype=torch.uint8)
    images[::4, :, :2] = 255
    chosen = choose_images(ImageChoice(count=10), images, torch.zeros(40))
    assert sorted(chosen.tolist()) == list(range(0, 40, 4))
    assert chosen.tolist() != sorted(chosen.tolist())
    with pytest.raises(UserError, match="only 10 test images"):
        choose_images(ImageChoice(count=11), images, torch.zeros(40))


def test_a_network_may_have_more_outputs_than_the_data_has_classes(dataset):
    observation, knowledge, truth = capture(spec(num_classes=57), dataset)
    assert knowledge.facts["num_classes"] == 57
    assert observation.update["fc.bias"].shape == (4, 57)
    # the softmax of 57 outputs minus the label
    sums = observation.update["fc.bias"].sum(1)
    assert torch.allclose(sums, torch.zeros(4, dtype=torch.float64), atol=1e-12)
    assert (observation.update["fc.bias"].argmin(1) == truth.labels[:, 0]).all()
    with pytest.raises(UserError, match="has 10 classes, more than 3 outputs"):
        capture(spec(num_classes=3), dataset)


def test_named_images_are_taken_in_their_order(dataset):
    assert choose_images(ImageChoice(count=2, indexes=(5, 3)), dataset.test_images, dataset.test_labels).tolist() == [
        5,
        3,
    ]
    with pytest.raises(UserError, match=r"images.indexes: the test part has the positions 0 to \d+, not 99999"):
        choose_images(ImageChoice(count=1, indexes=(99_999,)), dataset.test_images, dataset.test_labels)


def test_choosing_more_images_keeps_the_first(dataset):
    few, many = (
        choose_images(ImageChoice(count=count, seed=3), dataset.test_images, dataset.test_labels) for count in (3, 9)
    )
    assert torch.equal(few, many[:3])
    assert len(set(many.tolist())) == 9


STRETCH = 8
"""As long as a row of an image."""


def copies(tensors, images):
    """Return whether a stretch of a tensor, or of all of them in a row, is a row of an image up to scale and offset.

    The correlation of a copy in single precision is 1 to about 1e-7; eight numbers of a gradient come nowhere near.
    """
    rows = images.reshape(-1, STRETCH)
    rows = rows[(rows > 0).sum(1) >= 3]
    rows = rows - rows.mean(1, keepdim=True)
    rows = rows[rows.norm(dim=1) > 0.1]
    assert len(rows) > 20
    flat = [value.flatten().double() for value in tensors]
    for value in [*flat, torch.cat(flat)]:
        if len(value) >= STRETCH:
            stretches = value.unfold(0, STRETCH, 1)
            stretches = stretches - stretches.mean(1, keepdim=True)
            stretches = stretches[stretches.norm(dim=1) > 1e-9]
            if bool((F.normalize(stretches) @ F.normalize(rows).T).abs().max() > 1 - 1e-6):
                return True
    return False


def numbers(value):
    """Yield all numbers of nested facts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def test_the_observation_never_holds_the_truth(dataset):
    """No stretch of a tensor is a row of a private image in other units; no granted fact names a label or a rate."""
    observation, knowledge, truth = capture(spec(defense=Component(name="lrp"), draws=2), dataset)
    assert not copies([*observation.weights.values(), *observation.update.values()], truth.images)
    assert not {"labels", "rates", "images"} & set(knowledge.facts)
    facts = torch.tensor(list(numbers(knowledge.facts)), dtype=torch.float64)
    assert len(facts) > 5
    for rate in truth.rates.flatten():
        for unit in (1.0, 0.05, 1 / 0.05):  # the rate, or its factor on the nominal one
            assert not torch.isclose(facts, rate * unit, rtol=1e-6, atol=0).any()


@pytest.mark.parametrize(("scale", "offset", "dtype"), [(1, 0, "float64"), (-0.3, 0, "float32"), (2, -1, "float32")])
def test_a_planted_image_is_seen_in_other_units_too(dataset, scale, offset, dtype):
    observation, _, truth = capture(spec(), dataset)
    update = dict(observation.update)
    hidden = (scale * truth.images[1] + offset).to(getattr(torch, dtype)).flatten()
    update["fc.weight"] = update["fc.weight"].flatten().clone()
    update["fc.weight"][5 : 5 + len(hidden)] = hidden.double()
    assert copies(update.values(), truth.images)
