"""A training that goes on from where a shorter one stopped leaves the bytes of one that began at the first round."""

import pandas as pd
import pytest
import torch

from leaklab.federated.checkpoint import CLIENTS, DIVERGED, Stopped
from leaklab.federated.engine import train
from leaklab.records.files import read_tensors, write_tensors

OWN = {"evaluate": ["own-test"], "partition": {"name": "two-clients", "tests": 4}}
MOMENTUM = {"name": "sgd", "momentum": 0.5}
TESTS = [torch.arange(4), torch.arange(4, 8), torch.arange(8, 12)]


def stopped_at(folder, sweep):
    """Return what the run of a sweep left, read from its files."""
    kept = {CLIENTS + name: value for name, value in sweep.clients.items()}
    marked = {DIVERGED: sweep.diverged_after} if sweep.diverged else {}
    write_tensors(folder / "weights.safetensors", {**sweep.weights, **kept, **marked})
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
