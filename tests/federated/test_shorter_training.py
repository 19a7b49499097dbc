"""A training that goes on from where a shorter one stopped leaves the bytes of one that began at the first round."""

import pandas as pd
import pytest
import torch

from leaklab.federated.checkpoint import Stopped
from leaklab.federated.engine import train
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_tensors

OWN = {"evaluate": ["own-test"], "partition": {"name": "two-clients", "tests": 4}}
MOMENTUM = {"name": "sgd", "momentum": 0.5}
TESTS = [torch.arange(4), torch.arange(4, 8), torch.arange(8, 12)]


def stopped_at(folder, sweep):
    """Return what the run of a sweep left, read from its files."""
    write_tensors(folder / "weights.safetensors", sweep.left())
    sweep.table.to_parquet(folder / "sweep.parquet")
    rows = pd.read_parquet(folder / "sweep.parquet").to_dict("records")
    return Stopped.read(read_tensors(folder / "weights.safetensors"), rows)


def varied(spec, **changes):
    return type(spec).model_validate({**spec.model_dump(), "rounds": 5, "evaluate_every": 2, **changes})


def same(first, second):
    pd.testing.assert_frame_equal(first.table, second.table, check_exact=True)
    for part in ("weights", "clients"):
        one, other = getattr(first, part), getattr(second, part)
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert torch.equal(first.diverged_after, second.diverged_after)


@pytest.mark.parametrize("until", [2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {"defense": "lrp"},
        {"algorithm": {"name": "hyperfl"}, "dtype": "float32", **OWN},
        {"algorithm": {"name": "local-only"}, **OWN},
        {"model": {"name": "resnet-small", "blocks": 1, "width": 2}, "optimizer": MOMENTUM, "schedule": "cosine"},
        {"clients_per_round": 2, "defense": {"name": "dp-sgd", "sigma": 0.5, "bound": 1.0}, "algorithm": "scheme2"},
    ],
    ids=["lrp", "hyperfl", "local-only", "running statistics", "dp-sgd"],
)
def test_it_leaves_the_same(spec, dataset, clients, tmp_path, until, changes):
    whole, tests = varied(spec, **changes), TESTS if "partition" in changes else ()
    stopped = train(varied(spec, **changes, until=until), dataset, clients, tests=tests)
    longer = train(whole, dataset, clients, tests=tests, shorter=stopped_at(tmp_path, stopped))
    plain = train(whole, dataset, clients, tests=tests)
    same(longer, plain)
    assert longer.client_steps == plain.client_steps * (5 - until) // 5


def test_of_those_that_keep_messages_too_and_the_state_is_the_same(spec, dataset, clients, tmp_path):
    changes = {"defense": "lrp", "clients_per_round": 2}
    before = stopped_at(tmp_path, train(varied(spec, **changes, until=2), dataset, clients))
    sending = train(varied(spec, **changes, until=3, sends=[0, 2]), dataset, clients, shorter=before)
    silent = train(varied(spec, **changes, until=3), dataset, clients)
    same(sending, silent)
    assert silent.sent is None
    assert sending.sent.by.any()
    assert not sending.sent.by.all()
    whole = train(varied(spec, **changes), dataset, clients)
    same(train(varied(spec, **changes), dataset, clients, shorter=stopped_at(tmp_path, sending)), whole)


@pytest.mark.parametrize("chunk", [None, 1, 5])
@pytest.mark.parametrize(
    "changes",
    [
        {"defense": {"name": "additive-noise", "sigma": 0.1}, "dtype": "float32"},
        {"algorithm": {"name": "hyperfl"}, "dtype": "float32", **OWN},
        {"model": {"name": "resnet-small", "blocks": 1, "width": 2}, "dtype": "float32", "optimizer": MOMENTUM},
    ],
    ids=["noise", "hyperfl", "running statistics"],
)
def test_messages_that_are_kept_are_those_of_the_round_from_the_kept_state(
    spec, dataset, clients, tmp_path, changes, chunk
):
    given = {"tests": TESTS if "partition" in changes else (), "chunk": chunk}
    before = stopped_at(tmp_path, train(varied(spec, **changes, until=2), dataset, clients, **given))
    sending = varied(spec, **changes, until=3, sends=[1, 0])
    whole, again = (train(sending, dataset, clients, shorter=one, **given) for one in (None, before))
    assert whole.sent.by.all()
    assert whole.sent.messages.keys() == again.sent.messages.keys()
    for name, value in whole.sent.messages.items():
        assert value.shape[:2] == (sending.replicates, 2)
        assert torch.equal(value, again.sent.messages[name]), name
        assert not torch.equal(value[:, 0], value[:, 1]), name


def test_a_training_that_is_killed_in_its_last_round_sends_again(spec, dataset, clients, tmp_path):
    sending, checkpoint = varied(spec, sends=[0]), tmp_path / "checkpoint.safetensors"
    first = train(sending, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0)
    again = train(sending, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0)
    assert again.client_steps * 5 == first.client_steps
    assert all(torch.equal(value, first.sent.messages[name]) for name, value in again.sent.messages.items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"until": 0, "sends": [0]}, "nobody sends before the first round"),
        ({"goal": {"metric": "test_accuracy", "value": 50}, "sends": [0]}, "leave one out"),
        ({"sends": [0, 0]}, "twice"),
    ],
)
def test_messages_of_no_round_are_refused(spec, changes, message):
    with pytest.raises(ValueError, match=message):
        varied(spec, **changes)


def test_messages_of_a_client_that_the_deal_does_not_have_are_refused(spec, dataset, clients):
    with pytest.raises(
        UserError, match=f"sends: there are {len(clients)} clients, numbers 0 to .*: there is no client 7"
    ):
        train(varied(spec, sends=[7]), dataset, clients)
