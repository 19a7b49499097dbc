"""Head unmixing on networks whose features are known: exact ones, and what rounding and equal labels leave."""

from copy import deepcopy
from itertools import permutations

import numpy as np
import pytest
import torch

from leaklab.attacks.labels.head import counted_at_any_scale, head
from leaklab.attacks.labels.unmixing import EXPLAINED, HeadReader, unmix
from leaklab.models.cnns import DLGLeNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

FACTOR = 1.7
DIFFERENT, EQUAL, OTHER_EQUAL = [1, 2, 3, 7], [1, 1, 9, 9], [3, 3, 7, 7]


@pytest.fixture(scope="module")
def noise():
    return stream(0, "noise").uniform(300, 1, 8, 8)


@pytest.fixture(scope="module")
def batch_of(digits, observe, network_of):
    """Make the head's gradient of a batch times a factor, its labels and true features [B, F]."""

    def make(labels, factor=FACTOR, dtype=torch.float64, network=None):
        network = network or network_of()
        images = torch.stack([digits[0][digits[1] == label][5 * place] for place, label in enumerate(labels)])
        with torch.no_grad():
            features = network[:-1](images)
        own = deepcopy(network).to(dtype)
        observation = observe(images[None].to(dtype), torch.tensor([labels]), [factor], network=own)
        return head(observation), np.array(labels), features.numpy()

    return make


@pytest.fixture(scope="module")
def starts(network_of, noise):
    with torch.no_grad():
        return network_of()[:-1](noise[:32]).view(8, 4, -1).numpy()


def error(found, truth, labels):
    """Largest error of a feature relative to the largest feature; images of one label in their best order."""
    orders = [list(order) for order in permutations(range(len(labels))) if (labels[list(order)] == labels).all()]
    return min(abs(found[order] - truth).max() for order in orders) / abs(truth).max()


@pytest.mark.parametrize(("scale", "free"), [(FACTOR, False), (1.0, True), (FACTOR * 1.01, True)])
def test_features_and_factor_of_different_labels_are_exact(batch_of, starts, scale, free):
    gradient, labels, truth = batch_of(DIFFERENT)
    for start in starts:
        found = unmix(gradient, 0, labels, start[None], scale, free=free)
        assert error(found.features, truth, labels) < 1e-9
        assert found.scale == pytest.approx(FACTOR, rel=1e-9)
        assert found.residual < 1e-9


def test_a_wrong_factor_that_is_held_for_known_explains_nothing(batch_of, starts):
    gradient, labels, _ = batch_of(DIFFERENT)
    assert unmix(gradient, 0, labels, starts, 1.0).residual > 0.1


@pytest.mark.parametrize("labels", [EQUAL, OTHER_EQUAL])
def test_equal_labels_are_told_apart_in_float64(batch_of, starts, labels):
    gradient, labels, truth = batch_of(labels)
    best = unmix(gradient, 0, labels, starts, FACTOR)
    assert best.residual < 1e-5
    assert error(best.features, truth, labels) < 1e-4


def test_of_starts_that_end_in_wrong_valleys_the_residual_knows(batch_of, starts):
    gradient, labels, truth = batch_of(EQUAL)
    each = [unmix(gradient, 0, labels, start[None], FACTOR) for start in starts]
    best = unmix(gradient, 0, labels, starts, FACTOR)
    worst = max(each, key=lambda one: one.residual)
    assert best.residual == min(one.residual for one in each)
    assert worst.residual > 100 * best.residual
    assert error(worst.features, truth, labels) > 100 * error(best.features, truth, labels)


@pytest.mark.parametrize("labels", [EQUAL, OTHER_EQUAL])
def test_in_float32_equal_labels_stay_mixed_and_the_residual_says_so(batch_of, noise, labels):
    """Where predictions hardly depend on the image, their rows differ by less than the rounding."""
    network = DLGLeNet(initialisation="pytorch").initialised((1, 8, 8), 10, 0, torch.float64)
    with torch.no_grad():
        starts = network[:-1](noise[:32]).view(8, 4, -1).numpy()
    blurred, labels, truth = batch_of(labels, dtype=torch.float32, network=network)
    sharp, _, _ = batch_of(labels.tolist(), network=network)
    found, exact = (unmix(gradient, 0, labels, starts, FACTOR) for gradient in (blurred, sharp))
    assert exact.residual < 1e-4 < EXPLAINED < found.residual
    assert error(found.features, truth, labels) > 10 * error(exact.features, truth, labels)


def test_in_float32_different_labels_still_give_features_and_factor(batch_of, starts):
    gradient, labels, truth = batch_of(DIFFERENT, dtype=torch.float32)
    found = unmix(gradient, 0, labels, starts, 1.5, free=True)
    assert found.residual < 1e-3
    assert error(found.features, truth, labels) < 1e-2
    assert found.scale == pytest.approx(FACTOR, rel=1e-4)


@pytest.mark.parametrize("wrong", [[0, 1, 2, 3], [1, 2, 3, 3], [1, 2, 3, 8], [4, 5, 6, 7]])
def test_wrong_labels_do_not_explain_the_update(batch_of, starts, wrong):
    gradient, _, _ = batch_of(DIFFERENT)
    assert unmix(gradient, 0, np.array(wrong), starts, FACTOR, free=True).residual > 10 * EXPLAINED


def test_one_image_is_the_closed_form(batch_of, starts):
    """h = dW_j / db_j for any class j."""
    gradient, labels, truth = batch_of([4])
    ratio = gradient.weight_update[0, 4] / gradient.bias_update[0, 4]
    found = unmix(gradient, 0, labels, starts[:, :1], 1.0, free=True)
    assert np.allclose(found.features[0], ratio.numpy(), rtol=1e-9)
    assert np.allclose(found.features, truth, rtol=1e-9)
    assert found.scale == pytest.approx(FACTOR, rel=1e-9)


def test_as_many_images_as_classes_are_refused(batch_of, starts):
    gradient, _, _ = batch_of(DIFFERENT)
    with pytest.raises(UserError, match="a head of 10 classes unmixes fewer than 10 images, not 10"):
        unmix(gradient, 0, np.arange(10), np.repeat(starts[:, :1], 10, 1), 1.0)


class TestReader:
    """Labels and factor at once, nothing granted."""

    @staticmethod
    def read(network_of, noise, gradient, batch=4):
        return HeadReader(network_of(), gradient, noise, batch).read(0)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("labels", [DIFFERENT, EQUAL, OTHER_EQUAL, [0, 0, 0, 5]])
    def test_labels_are_right_and_the_factor_is_near(self, network_of, noise, batch_of, labels, dtype):
        found = self.read(network_of, noise, batch_of(labels, 0.03, dtype)[0])
        assert found.labels.tolist() == labels
        assert found.scale == pytest.approx(0.03, rel=0.01)

    def test_where_the_update_is_explained_the_factor_is_exact(self, network_of, noise, batch_of):
        found = self.read(network_of, noise, batch_of(DIFFERENT, 0.03)[0])
        assert found.residual < 1e-9
        assert found.scale == pytest.approx(0.03, rel=1e-9)

    def test_the_weight_gradient_corrects_a_wrong_count(self, network_of, noise, batch_of):
        """The public prediction is off, so that another batch fits the bias gradient better than the true one."""
        gradient, _, _ = batch_of(DIFFERENT)
        reader = HeadReader(network_of(), gradient, noise, 4)
        reader.prediction = 0.3 * reader.prediction + 0.7 * torch.eye(10).double()[0]
        counted = counted_at_any_scale(gradient.bias_update[0], reader.prediction, 4)
        assert counted[0].labels.tolist() == [0, 1, 2, 3]
        found = reader.read(0)
        assert found.labels.tolist() == DIFFERENT
        assert found.scale == pytest.approx(FACTOR, rel=1e-9)

    def test_a_large_batch_is_counted_without_unmixing(self, network_of, noise, digits, observe):
        labels = digits[1][:40]
        gradient = head(observe(digits[0][:40][None], labels[None], [FACTOR]))
        found = self.read(network_of, noise, gradient, 40)
        assert found.residual == np.inf
        assert torch.equal(found.labels, labels.sort().values)
        assert found.scale == pytest.approx(FACTOR, rel=0.01)

    def test_granted_labels_give_the_factor_in_any_order(self, network_of, noise, batch_of):
        gradient, labels, _ = batch_of([7, 1, 3, 2])
        found = HeadReader(network_of(), gradient, noise, 4).scale_of(0, torch.as_tensor(labels))
        assert found.scale == pytest.approx(FACTOR, rel=1e-9)
