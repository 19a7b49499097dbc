"""How often a class occurs: equations that hold exactly where the prediction is that of the batch."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.labels.head import counted_at_any_scale, counted_labels
from leaklab.records.streams import stream

CLASSES = 10
LABELS = torch.tensor([[1, 1, 9, 9], [0, 2, 2, 2], [3, 4, 5, 6]])


def bias_gradient(prediction, labels):
    return prediction - F.one_hot(labels, CLASSES).double().mean(-2)


@pytest.fixture(params=[0, 1, 2])
def prediction(request):
    return torch.softmax(stream(request.param, "p").normal(CLASSES), 0)


def test_counts_are_exact_where_the_prediction_is_that_of_the_batch(prediction):
    """The head's bias gradient is the mean prediction less the shares of the labels, equal ones included."""
    assert torch.equal(counted_labels(bias_gradient(prediction, LABELS), prediction, 4), LABELS)


def test_counts_are_rounded_so_that_they_sum_to_the_batch():
    missing = torch.tensor([[0.4, 0.4, 1.7, 0.5]])
    assert counted_labels(-missing / 3, torch.zeros(4), 3).tolist() == [[2, 2, 3]]


@pytest.mark.parametrize("factor", [1e-5, 0.3, 1.0, 70.0])
def test_at_any_scale_labels_and_factor_are_exact(prediction, factor):
    for labels in LABELS:
        best, second = counted_at_any_scale(factor * bias_gradient(prediction, labels), prediction, 4)[:2]
        assert torch.equal(best.labels, labels)
        assert best.scale == pytest.approx(factor, rel=1e-12)
        assert best.misfit < 1e-12 < 1e-3 < second.misfit


def test_where_one_class_takes_all_of_the_prediction_readings_tie():
    """(1, 1, 9, 9) at one scale is (0, 0, 1, 9) at twice that scale, and no other reading is as good."""
    prediction = F.one_hot(torch.tensor(0), CLASSES).double()
    first, second, third = counted_at_any_scale(bias_gradient(prediction, LABELS[0]), prediction, 4)[:3]
    scales = {tuple(one.labels.tolist()): one.scale for one in (first, second)}
    assert scales == {(1, 1, 9, 9): pytest.approx(1), (0, 0, 1, 9): pytest.approx(2)}
    assert max(first.misfit, second.misfit) < 1e-12 < third.misfit


def test_the_best_of_all_multisets_is_among_the_readings():
    """The slow way: every batch of three labels of four classes, with a prediction that is off."""
    prediction = torch.tensor([0.4, 0.3, 0.2, 0.1]).double()
    every = torch.combinations(torch.arange(4), 3, with_replacement=True)
    for labels in every:
        noisy = prediction + 0.02 * stream(1, "off", labels.tolist()).normal(4)
        observed = 1.7 * (noisy - F.one_hot(labels, 4).double().mean(0))
        cosines = torch.stack([
            F.cosine_similarity(observed, prediction - F.one_hot(one, 4).double().mean(0), dim=0) for one in every
        ])  # fmt: skip
        best = counted_at_any_scale(observed, prediction, 3)[0]
        assert torch.equal(best.labels, every[cosines.argmax()])
        assert best.misfit == pytest.approx(1 - float(cosines.max()) ** 2, abs=1e-12)
