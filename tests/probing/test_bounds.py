"""What an exchange can tell at most, against counts by hand and planted clients that show nothing."""

import json

import pytest
import torch
from probe_proofs.clients import mlp, pictures
from torch import nn
from torch.nn import functional as F

from leaklab.probing.algebra.bounds import Bounds, bounds
from leaklab.probing.algebra.rounding import rank
from leaklab.probing.case import Case
from leaklab.probing.client import Client

LABELS = torch.tensor([1, 1, 2, 5, 7, 7])


def _bounds(client: Client, targets: torch.Tensor = LABELS) -> Bounds:
    inputs = pictures(len(targets), 8)[0]
    return bounds(Case(client, client.round(inputs, targets), inputs, targets))


def test_equations_are_those_of_rank_and_labels_are_counted() -> None:
    found = _bounds(Client(mlp(activation=nn.Tanh)))
    assert {one.name: one.equations for one in found.tensors} == {
        "1.weight": 6 * (60 + 64 - 6),
        "1.bias": 60,
        "3.weight": 6 * (60 + 60 - 6),
        "3.bias": 60,
        "5.weight": 6 * (10 + 60 - 6),
        "5.bias": 10,
    }
    assert found.counted is not None
    assert found.counted.least == 6
    assert found.labels is not None
    assert found.labels.present == (1, 2, 5, 7)
    assert found.labels.counts == {1: 2, 2: 1, 5: 1, 7: 2}
    assert any("384 unknowns" in line for line in found.lines())
    json.dumps(found.record())


@pytest.mark.parametrize(
    "loss",
    [
        lambda output, targets: 0.5 * F.cross_entropy(output, targets),
        lambda output, targets: F.cross_entropy(output, targets, label_smoothing=0.1),
    ],
)
def test_labels_are_read_whatever_kin_of_cross_entropy(loss) -> None:
    assert _bounds(Client(mlp(), loss=loss)).labels.counts == {1: 2, 2: 1, 5: 1, 7: 2}


def test_of_binary_cross_entropy_on_one_class_each_labels_are_counted() -> None:
    one_hot = F.one_hot(LABELS, 10).double()
    assert _bounds(Client(mlp(), loss=F.binary_cross_entropy_with_logits), one_hot).labels.counts == {
        1: 2,
        2: 1,
        5: 1,
        7: 2,
    }


def test_of_a_regression_no_label_is_told() -> None:
    assert _bounds(Client(mlp(), loss=F.mse_loss), torch.randn(6, 10).double()).labels is None
    # integers as targets of a regression are no classes
    assert _bounds(Client(mlp(outputs=1), loss=lambda output, targets: F.mse_loss(output[:, 0], targets.double())))
    assert _bounds(Client(mlp(), loss=lambda out, t: F.mse_loss(out[:, 0], t.double()))).labels is None


def test_decay_is_taken_off_before_ranks_are_counted() -> None:
    client = Client(mlp(), optimizer=lambda these: torch.optim.SGD(these, 0.1, weight_decay=0.01))
    assert _bounds(client).counted.least == 6


def test_no_rank_counts_samples_where_the_update_is_no_sum_over_them() -> None:
    assert _bounds(Client(mlp(), optimizer=torch.optim.Adam)).counted is None
    noisy = Client(mlp(), defense=lambda sent: {name: one + torch.randn_like(one) for name, one in sent.items()})
    assert _bounds(noisy).counted is None


def test_the_first_layer_counts_the_samples_of_several_steps() -> None:
    found = _bounds(Client(mlp(), steps=3))
    assert (found.counted.least, found.counted.by) == (6, "1.weight")


def test_what_shows_nothing_is_named() -> None:
    model = mlp()
    client = Client(
        model, shares=["1.weight", "3.weight"], defense=lambda sent: {**sent, "3.weight": sent["3.weight"] * 0}
    )
    found = _bounds(client)
    states = {one.name: one.state for one in found.tensors}
    assert states["3.weight"] == "zero"
    assert states["5.bias"] == "missing"
    assert any("3.weight show nothing" in line for line in found.lines())
    model[1].requires_grad_(False)
    assert "1.weight" not in {one.name for one in _bounds(Client(model)).tensors}


def test_batch_normalisation_gives_mean_and_variance_away() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10, bias=False)
    ).double()
    inputs = pictures(6, 8)[0]
    found = _bounds(Client(model, shares=list(model.state_dict())))
    (read,) = found.statistics
    seen = model[0](inputs)
    torch.testing.assert_close(read.mean, seen.mean((0, 2, 3)))
    torch.testing.assert_close(read.variance, seen.transpose(0, 1).flatten(1).var(1))
    assert found.labels.present == (1, 2, 5, 7)
    assert found.labels.by == "4.weight"
    assert _bounds(Client(model, shares=list(model.state_dict()), steps=2)).statistics == ()


def test_an_unknown_sample_leaves_bounds_and_says_so() -> None:
    client, inputs = Client(mlp()), pictures(6, 8)[0]
    found = bounds(Case(client, client.round(inputs, LABELS)))
    assert found.counted is None
    assert found.unknowns is None
    assert any("not rehearsed" in line for line in found.lines())


def test_rank_is_where_the_gap_is() -> None:
    torch.manual_seed(0)
    low = torch.randn(700, 3).double() @ torch.randn(3, 800).double()
    assert rank(low, 0.0).value == 3
    assert rank(low + 1e-6 * torch.randn(700, 800).double(), 1e-6).value == 3
    assert rank(low[:3], 0.0).value == 3
    assert rank(torch.randn(700, 800).double(), 0.0).capped
    assert rank(1e-9 * low, 1e-3).value == 0
