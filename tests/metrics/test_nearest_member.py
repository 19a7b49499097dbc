"""Pictures in the update of many samples: planted ones are found, pairs are counted fairly, and rates do not matter."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.exact_batch import UnmixedPictures
from leaklab.attacks.first_layer.layer import FirstLayer
from leaklab.attacks.first_layer.unmixing import pictures, quotients
from leaklab.captures.capture import capture
from leaklab.captures.truth import Truth
from leaklab.data.dataset import Dataset
from leaklab.federated.engine import train
from leaklab.metrics import named_image
from leaklab.metrics.named_image import MemberMargin, NearestMember, nearest, sides
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.attack import AttackSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

SIDE, UNITS, SAMPLES = 8, 16, 60
MLP = {"name": "mlp", "hidden": UNITS}


@pytest.fixture(scope="module")
def digits():
    loaded = load_digits()
    return torch.tensor(loaded.images / 16)[:, None], torch.tensor(loaded.target)


@pytest.fixture(scope="module")
def images(digits):
    return digits[0][:200].double().flatten(1).numpy()


def layer_of(images, derivatives):
    weight = stream(0, "W").normal(UNITS, SIDE * SIDE).numpy()
    bias = stream(0, "c").normal(UNITS).numpy()
    return FirstLayer(derivatives.T @ images, derivatives.sum(0), weight, bias, SIDE)


def psnr(picture, image):
    return float(-10 * np.log10(np.mean((np.clip(picture, 0, 1) - image) ** 2)))


def test_few_hard_samples_among_many_learnt_ones_are_seen(images):
    """60 samples on 16 units: two have derivatives of size 1, the others of 1e-4, as after a training."""
    sizes = np.full(SAMPLES, 1e-4)
    sizes[[17, 55]] = 1.0
    off = stream(0, "off").uniform(SAMPLES, UNITS).numpy() < 0.5
    derivatives = stream(0, "D").normal(SAMPLES, UNITS).numpy() * sizes[:, None] * ~off
    found = pictures(layer_of(images[:SAMPLES], derivatives), stream(0, "start"))
    best = [max(psnr(picture, image) for picture in found) for image in images[:SAMPLES]]
    assert min(best[place] for place in (17, 55)) > 30
    assert np.median(best) < 20
    assert max(max(psnr(picture, image) for picture in found) for image in images[100 : 100 + SAMPLES]) < 25


def test_one_sample_comes_back_exactly_and_a_factor_changes_nothing(images):
    derivatives = stream(0, "D").normal(1, UNITS).numpy()
    layer = layer_of(images[:1], derivatives)
    assert np.allclose(quotients(layer), images[0], atol=1e-12)
    many = layer_of(images[:SAMPLES], stream(1, "D").normal(SAMPLES, UNITS).numpy())
    hidden = FirstLayer(-0.37 * many.weight_update, -0.37 * many.bias_update, many.weight, many.bias, SIDE)
    assert np.allclose(pictures(many, stream(0, "s")), pictures(hidden, stream(0, "s")), atol=1e-6)


class TestSides:
    """Both sides have as many images of each label, and each image once."""

    @pytest.fixture
    def truth(self):
        labels = torch.tensor([[0, 0, 0, 1, 2], [0, 0, 1, 1, 1]])
        places = [[10, 11, 11, 12, 13], [20, 10, 21, 22, 21]]
        images = torch.tensor(places).double()[:, :, None, None, None] / 100
        trials = tuple({"image": held, "draw": 0} for held in places)
        return Truth(images, labels, torch.zeros(2, 1), trials)

    def test_of_the_first_client(self, truth):
        """Labels 0: places 10, 11 against 20, 10 (both hold image 10, which is no stranger); 1: 12 against 21."""
        members, strangers = sides(truth, 0)
        assert [round(100 * float(one)) for one in members] == [10, 12]
        assert [round(100 * float(one)) for one in strangers] == [20, 21]

    def test_the_nearest_pair_is_that_of_a_plain_loop(self, images):
        taken, others = torch.from_numpy(images[:7]) * 0.9, torch.from_numpy(images[20:50])
        wanted = max(psnr(one.numpy(), other.numpy()) for one in taken for other in others)
        assert nearest(taken, others) == pytest.approx(wanted, abs=1e-9)
        assert nearest(others, others[:3]) == 80


@pytest.fixture(scope="module")
def caught(digits):
    """Make a capture of four clients before the first round: 6 steps on batches of 4, on an MLP of 16 units."""
    images = (digits[0] * 255).round().to(torch.uint8)
    dataset = Dataset("digits", 10, images[:1000], digits[1][:1000], images[1000:], digits[1][1000:],
                      torch.tensor([0.3]), torch.tensor([0.4]))  # fmt: skip
    deal = [torch.arange(100 * client, 100 * client + 60) for client in range(4)]

    def make(model=MLP, defense="none", clients=(0, 1, 2, 3)):
        fields = {
            "dataset": "digits", "partition": {"name": "two-clients"}, "model": model, "rates": [[0.05]], "rounds": 1,
            "until": 0, "local_steps": 6, "batch_size": 4, "seeds": [1], "defense": defense, "weight_decay": 1e-4,
        }  # fmt: skip
        spec = TrainSpec.model_validate(fields)
        done = train(spec, dataset, deal)
        shared = ("dataset", "model", "algorithm", "local_steps", "batch_size", "dtype", "optimizer", "weight_decay",
                  "defense")  # fmt: skip
        of = CaptureSpec.model_validate(
            {
                **{key: spec.model_dump()[key] for key in shared},
                "images": {"partition": spec.partition, "clients": clients},
                "state": {"train": spec, "replicate": 0},
                "rate": 0.05,
                "kind": "delta",
            }
        )
        return capture(of, dataset, deal, done.weights)

    return make


@pytest.mark.parametrize("defense", ["none", "lrp"])
def test_the_margin_is_what_members_are_above_strangers(caught, defense):
    observation, knowledge, truth = caught(defense=defense)
    member = NearestMember().values(observation, knowledge, None, truth)
    margin = MemberMargin().values(observation, knowledge, None, truth)
    assert member.shape == margin.shape == truth.labels.shape == (4, 24)
    assert (member == member[:, :1]).all()
    # with the truth of another client in its place, the members are strangers
    turned = replace(truth, images=truth.images.roll(1, 0), labels=truth.labels.roll(1, 0),
                     trials=tuple(truth.trials[row - 1] for row in range(4)))  # fmt: skip
    assert (NearestMember().values(observation, knowledge, None, turned) != member).any()
    assert (margin < member).all()


def test_member_and_margin_look_for_pictures_once(caught, monkeypatch):
    observation, knowledge, truth = caught(clients=(0, 1, 3))
    looked = []
    monkeypatch.setattr(named_image, "pictures", lambda *of: looked.append(of) or pictures(*of))
    monkeypatch.setattr(named_image, "_KEPT", {})
    both = [metric.values(observation, knowledge, None, truth) for metric in (NearestMember(), MemberMargin())]
    assert len(looked) == 3
    monkeypatch.setattr(named_image, "_KEPT", {})
    assert torch.equal(MemberMargin().values(observation, knowledge, None, truth), both[1])


def test_pictures_are_handed_out_in_turn(caught):
    observation, knowledge, truth = caught()
    found = UnmixedPictures(samples=24).reconstruct(
        Case(observation, knowledge, Budget(1, 1), lambda *n: stream(0, *n))
    )
    assert found.images.shape == truth.images.shape
    assert found.images.isfinite().all()


def test_what_cannot_be_compared_is_named(caught):
    observation, knowledge, truth = caught(clients=(0,))
    with pytest.raises(UserError, match="no other client has a label of client 0") as line:
        MemberMargin().values(observation, knowledge, None, truth)
    assert "\n" not in str(line.value)
    observation, knowledge, truth = caught(model="dlg-lenet")
    with pytest.raises(UserError, match="begins with an affine layer"):
        NearestMember().values(observation, knowledge, None, truth)


def test_a_single_client_is_refused_while_planning():
    def refused(*clients):
        images = {"partition": {"name": "two-clients"}, "clients": clients}
        fields = {"capture": {"dataset": "digits", "images": images, "model": MLP, "rate": 0.1, "kind": "delta"},
                  "attack": {"name": "unmixed-pictures", "samples": 24}, "iterations": 1}  # fmt: skip
        return MemberMargin().refusal(AttackSpec.model_validate(fields))

    assert "name several in images.clients" in refused(0)
    assert refused(0, 1) is None
