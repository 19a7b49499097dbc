"""Which image an update is of: exact without noise, blind to hidden rates, chance under noise without end."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

from leaklab.attacks.analytic import HeadLookup
from leaklab.attacks.base import Budget, Case, victim
from leaklab.attacks.labels.head import features_of, head_features
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.metrics.named_image import NamedByGradient, NamedImage
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.attack import AttackSpec
from leaklab.specs.capture import CaptureSpec

TRIALS, KEPT, CLASSES = 6, 20, 10


@pytest.fixture(scope="module")
def dataset():
    loaded = load_digits()
    images = torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.tensor(loaded.target)
    return Dataset("digits", CLASSES, images[:1000], labels[:1000], images[1000:], labels[1000:],
                   torch.zeros(1), torch.ones(1))  # fmt: skip


@pytest.fixture(scope="module")
def generator(dataset):
    """The public images are of the other part of the data set."""
    plugin = ClassGaussian(components=4, kept=KEPT)
    return plugin.fitted(dataset.test_images / 255.0, dataset.test_labels, CLASSES)


def captured(dataset, defense="none", **changes):
    fields = {
        "dataset": "digits", "images": {"split": "train", "count": TRIALS, "seed": 1}, "model": "dlg-lenet",
        "rate": 0.1, "defense": defense,
    }  # fmt: skip
    return capture(CaptureSpec.model_validate(fields | changes), dataset)


@pytest.mark.parametrize("defense", ["none", "lrp", {"name": "gradient-clipping", "bound": 0.01}])
@pytest.mark.parametrize("initialisation", ["wide", "pytorch"])
def test_the_head_holds_the_features_whatever_the_factor(dataset, generator, defense, initialisation):
    model = {"name": "dlg-lenet", "initialisation": initialisation}
    observation, knowledge, truth = captured(dataset, defense, model=model, dtype="float64")
    features = features_of(victim(observation, knowledge, "the test"), truth.images[:, 0].double())
    assert torch.allclose(head_features(observation), features, rtol=0, atol=1e-9)
    for metric in (NamedImage(), NamedByGradient()):
        assert metric.values(observation, knowledge, generator, truth).tolist() == [[1.0]] * TRIALS


@pytest.mark.parametrize("metric", [NamedImage(), NamedByGradient()])
def test_noise_without_end_leaves_chance(dataset, generator, metric):
    observation, knowledge, truth = captured(dataset, {"name": "additive-noise", "sigma": 1e6})
    assert metric.values(observation, knowledge, generator, truth).mean() <= 1 / TRIALS


def test_all_of_an_update_names_more_than_its_head(dataset, generator):
    """At the standard deviation of LRP's baselines the head of small images is lost in noise."""
    found = captured(
        dataset, {"name": "additive-noise", "sigma": 0.1}, images={"split": "train", "count": 40, "seed": 1}
    )
    by_head, by_all = (metric.values(found[0], found[1], generator, found[2]).mean()
                       for metric in (NamedImage(), NamedByGradient()))  # fmt: skip
    assert by_head < by_all


def test_the_cosines_are_those_of_plain_differentiation(dataset, generator):
    observation, knowledge, truth = captured(dataset, {"name": "additive-noise", "sigma": 0.05}, dtype="float64")
    network = victim(observation, knowledge, "the test").double().requires_grad_()

    def cosine(image, label, row):
        loss = F.cross_entropy(network(image[None].double()), torch.tensor([label]))
        gradient = torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(network.parameters()))])
        update = torch.cat([value[row].flatten() for value in observation.update.values()])
        return float(F.cosine_similarity(gradient, update, dim=0))

    wanted = []
    for row in range(TRIALS):
        own = cosine(truth.images[row, 0], int(truth.labels[row, 0]), row)
        others = [cosine(image.view(1, 8, 8).double() / 255, label, row)
                  for label in range(CLASSES) for image in generator.public[label]]  # fmt: skip
        wanted.append([float(own > max(others))])
    assert NamedByGradient().values(observation, knowledge, generator, truth).tolist() == wanted
    assert 0 < sum(map(sum, wanted)) < TRIALS


def test_a_private_image_that_is_public_too_is_looked_up(dataset, generator):
    observation, knowledge, truth = captured(dataset, "lrp", dtype="float64")
    own = ClassGaussian(components=4, kept=KEPT).fitted(dataset.test_images / 255.0, dataset.test_labels, CLASSES)
    own.public[truth.labels[:, 0], torch.arange(TRIALS)] = (255 * truth.images[:, 0].flatten(1)).round().to(torch.uint8)
    found = HeadLookup().reconstruct(
        Case(observation, knowledge, Budget(1, 1), lambda *n: stream(0, *n), generator=own)
    )
    assert torch.allclose(found.images, truth.images.double(), atol=1e-6)
    assert (found.labels == truth.labels).all()
    # and is then told from no other
    assert NamedImage().values(observation, knowledge, own, truth).sum() < TRIALS


def test_what_it_needs_is_said(dataset, generator):
    observation, knowledge, truth = captured(dataset)
    bare = ClassGaussian(components=4).fitted(dataset.test_images / 255.0, dataset.test_labels, CLASSES)
    for fails in (
        lambda: HeadLookup().reconstruct(
            Case(observation, knowledge, Budget(1, 1), lambda *n: stream(0, *n), generator=bare)
        ),
        lambda: NamedImage().values(observation, knowledge, bare, truth),
    ):
        with pytest.raises(UserError, match="choose the generator class-gaussian with kept"):
            fails()

    def refused(**changes):
        fields = {"capture": {"dataset": "digits", "images": {"count": 2}, "model": "dlg-lenet", "rate": 0.1},
                  "attack": "ig", "iterations": 1}  # fmt: skip
        return NamedByGradient().refusal(AttackSpec.model_validate(fields | changes))

    public = {"dataset": "digits", "split": "test", "model": {"name": "class-gaussian", "kept": 5}, "steps": 1}
    assert "the generator class-gaussian keeps" in refused()
    assert refused(attack="head-lookup", generator=public) is None
