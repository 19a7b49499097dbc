"""What is proven of a round, and what must not be: small networks whose batch the test knows."""

import json
from dataclasses import replace

import pytest
import torch
from probe_proofs.clients import mlp, pictures
from probe_proofs.kinds import Bare, LowRank, Reader
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.algebra.proofs import Proofs, proofs
from leaklab.probing.algebra.sample_maps import SampleMap, sample_map
from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.records.streams import stream


def _proofs(client: Client, inputs: Tensor, targets: Tensor, **changes: object) -> Proofs:
    return proofs(replace(Case(client, client.round(inputs, targets), inputs, targets), **changes))  # type: ignore[arg-type]


def _exact(found: Proofs, inputs: Tensor, tolerance: float = 1e-8) -> bool:
    """Return whether every sample was read, proven, and nothing else was."""
    read = [one for one in found.readings if one.of == "input" and one.proven]
    errors = torch.stack([(one.values - inputs).abs().flatten(1).amax(1) for one in read]) if read else torch.ones(1, 1)
    return len(read) == len(inputs) and bool((errors.amin(0) < tolerance).all() and (errors.amin(1) < tolerance).all())


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss": lambda output, targets: 0.5 * F.cross_entropy(output, targets), "sends": "gradient"},
        {"loss": lambda output, targets: F.cross_entropy(output, targets, label_smoothing=0.1), "sends": "weights"},
        {"prepare": lambda values: (values - 0.13) / 0.31},
        {"optimizer": lambda these: torch.optim.SGD(these, 0.1, weight_decay=0.01)},
        {"clip": 0.01},
    ],
)
def test_a_batch_before_relu_is_read_and_proven(samples: int, changes: dict) -> None:
    inputs, targets = pictures(samples, 8)
    found = _proofs(Client(mlp(), **changes), inputs, targets)
    assert _exact(found, inputs, 1e-6)
    json.dumps(found.record())
    assert any("proven" in line for line in found.lines())


def test_float32_is_proven_to_its_own_precision() -> None:
    inputs, targets = (one.float() if one.is_floating_point() else one for one in pictures(3, 8))
    assert _exact(_proofs(Client(mlp().float()), inputs, targets), inputs, 1e-3)


def test_a_table_with_squared_error_is_read() -> None:
    torch.manual_seed(1)
    inputs = torch.randn(3, 30).double()
    assert _exact(_proofs(Client(mlp(30, outputs=1), loss=F.mse_loss), inputs, inputs[:, :1]), inputs)


def test_bare_and_tied_parameters_are_read() -> None:
    inputs, targets = pictures(3)
    assert _exact(_proofs(Client(Bare()), inputs, targets), inputs)


def test_without_a_bias_the_length_is_found_by_closing() -> None:
    network = nn.Sequential(*(LowRank(one) if isinstance(one, nn.Linear) else one for one in mlp()))
    inputs, targets = pictures(3, 8)
    assert _exact(_proofs(Client(network), inputs[:1], targets[:1]), inputs[:1])
    assert not _proofs(Client(network), inputs, targets).readings


def test_one_sample_of_several_steps_is_proven_by_running_them_again() -> None:
    inputs, targets = pictures(1, 8)
    assert _exact(_proofs(Client(mlp(), steps=4), inputs, targets), inputs)


def test_smooth_units_show_one_sample_and_no_batch() -> None:
    inputs, targets = pictures(3, 8)
    assert _exact(_proofs(Client(mlp(activation=nn.GELU)), inputs[:1], targets[:1]), inputs[:1])
    assert not any(one.proven for one in _proofs(Client(mlp(activation=nn.GELU)), inputs, targets).readings)


def test_a_mean_before_the_layer_is_no_input() -> None:
    inputs, targets = pictures(1, 16)
    found = _proofs(Client(nn.Sequential(nn.AvgPool2d(2), mlp())), inputs, targets)
    (read,) = found.readings
    assert (read.of, read.proven) == ("1.1", True)
    torch.testing.assert_close(read.values, F.avg_pool2d(inputs, 2).flatten())
    assert any("only 64 numbers of a sample's 256" in line for line in found.lines())


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.clamp(0, 0.9),
        lambda values: (values * 16).round() / 16,
        lambda values: values - values.mean(0, keepdim=True),
        lambda values: values / values.flatten(1).norm(dim=1)[:, None, None, None],
        lambda values: F.dropout(values, 0.2),
    ],
)
def test_what_is_changed_before_the_layer_is_no_input(change) -> None:
    inputs, targets = pictures(3, 8)
    for count in (1, 3):
        found = _proofs(Client(mlp(), prepare=change), inputs[:count], targets[:count])
        assert not any(one.of == "input" for one in found.readings)


def test_dropout_proves_nothing() -> None:
    body, (inputs, targets) = mlp(), pictures(3, 8)
    network = nn.Sequential(*body[:3], nn.Dropout(0.5), *body[3:])
    for count in (1, 3):
        assert not any(one.proven for one in _proofs(Client(network), inputs[:count], targets[:count]).readings)


@pytest.mark.parametrize("tensor", ["1.weight", "1.bias", "3.weight", "5.bias"])
def test_a_tensor_that_was_altered_after_training_breaks_the_proof(tensor: str) -> None:
    inputs, targets = pictures(3, 8)
    client = Client(mlp())
    for count in (1, 3):
        sent = client.round(inputs[:count], targets[:count])
        altered = {**sent.sent, tensor: sent.sent[tensor] * (1 + 1e-5 * torch.randn_like(sent.sent[tensor]))}
        found = proofs(Case(client, replace(sent, sent=altered), inputs[:count], targets[:count]))
        proven = [one for one in found.readings if one.proven]
        # what a layer behind the altered one saw can still be certain
        assert all(one.of == "3" and tensor == "1.weight" for one in proven)
        for one in proven:
            assert (one.values - client.model[:3](inputs[:count])).abs().amax(1).min() < 1e-8


def test_the_count_of_samples_has_to_be_that_of_the_update() -> None:
    inputs, targets = pictures(1, 8)
    twice, both = torch.cat([inputs, inputs + 1e-12]), torch.cat([targets, targets])
    assert not any(one.proven for one in _proofs(Client(mlp()), twice, both).readings)
    client = Client(mlp())
    case = Case(client, client.round(inputs, targets), public=pictures(5, 8, first=50))
    assert not any(one.proven for one in proofs(case).readings)
    told = replace(case, exchange=replace(case.exchange, facts={"samples": 1}))
    assert _exact(proofs(told), inputs)


def test_two_classes_do_not_make_one_sample_of_two() -> None:
    # all derivatives are multiples of (1, -1), so the update has rank one whatever the batch
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2)).double()
    inputs, targets = pictures(3, 8)
    found = _proofs(Client(network), inputs, targets % 2)
    assert not any(one.proven for one in found.readings)


def test_a_frozen_or_withheld_layer_shows_no_input() -> None:
    inputs, targets = pictures(1, 8)
    network = mlp()
    assert all(
        one.of == "3" for one in _proofs(Client(network, shares=["3.weight", "3.bias"]), inputs, targets).readings
    )
    network[1].requires_grad_(False)
    found = _proofs(Client(network), inputs, targets)
    assert [one.of for one in found.readings] == ["3"]
    torch.testing.assert_close(found.readings[0].values, network[:3](inputs)[0].detach())


def test_adam_and_noise_are_left_alone_with_a_reason() -> None:
    inputs, targets = pictures(1, 8)
    for client in (
        Client(mlp(), optimizer=torch.optim.Adam),
        Client(mlp(), defense=lambda sent: {name: one + torch.randn_like(one) for name, one in sent.items()}),
    ):
        found = _proofs(client, inputs, targets)
        assert not found.readings
        assert any("no sum over samples" in line for line in found.lines())


class _Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cut, self.places = nn.Conv2d(1, 24, 4, 4), nn.Parameter(0.1 * torch.randn(1, 5, 24))
        self.word, self.mix, self.head = nn.Parameter(torch.randn(1, 1, 24)), nn.Linear(24, 24), nn.Linear(24, 10)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.cut(images).flatten(2).mT
        tokens = torch.cat([self.word.expand(len(images), -1, -1), patches], 1) + self.places
        weights = (tokens @ tokens.mT / 5).softmax(-1)
        return self.head((weights @ self.mix(tokens)).tanh().mean(1))


def test_patches_are_read_by_their_positions() -> None:
    inputs, targets = pictures(2, 8)
    client = Client(_Patches().double())
    assert _exact(_proofs(client, inputs[:1], targets[:1]), inputs[:1])
    assert not _proofs(client, inputs, targets).readings


def test_tokens_are_those_whose_rows_moved() -> None:
    tokens = torch.randint(0, 200, (3, 12), generator=torch.Generator().manual_seed(2))
    for changes in ({}, {"sends": "gradient"}, {"optimizer": torch.optim.Adam}):
        found = _proofs(Client(Reader(), **changes), tokens, torch.arange(3))  # type: ignore[arg-type]
        (read,) = found.readings
        assert (read.by, read.of, read.proven) == ("rows", "words", True)
        assert torch.equal(read.values, tokens.unique())
    tied = Client(Reader(), defense=_moved)
    assert not _proofs(tied, tokens, torch.arange(3)).readings


def _moved(sent: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**sent, "words.weight": sent["words.weight"] + 1e-4}


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        (lambda images: images.flip(2) * 2 - 1, True),
        (lambda images: F.unfold(images, 3, padding=1).mT, True),
        (lambda images: F.interpolate(images, size=12, mode="bilinear"), True),
        (lambda images: F.interpolate(images, size=4, mode="bilinear"), False),
        (lambda images: images[:, :, 1:], False),
        (lambda images: images.relu(), False),
        (lambda images: images**1.0001, False),
        (lambda images: images.sin(), False),
    ],
)
def test_the_way_from_a_sample_is_measured_and_leads_back(change, holds: bool) -> None:
    images = pictures(3, 8)[0]

    def rows(samples: Tensor) -> Tensor:
        seen = change(samples)
        return seen if seen.dim() == 3 else seen.flatten(1)[:, None]

    found = sample_map(rows, images[:1], stream(0, "way"))
    assert isinstance(found, SampleMap) == holds
    if isinstance(found, SampleMap):
        torch.testing.assert_close(found.back(rows(images)), images)


def test_more_rows_than_the_batch_has_tokens_are_no_tokens() -> None:
    tokens = torch.randint(0, 200, (3, 12), generator=torch.Generator().manual_seed(2))
    client = Client(Reader())
    sent = client.round(tokens, torch.arange(3))
    found = proofs(Case(client, replace(sent, sent=_moved(dict(sent.sent))), tokens, torch.arange(3)))
    assert not found.readings
    assert any("more than the batch has tokens" in line for line in found.lines())
