"""The recorder in real Flower simulations: what leaves two clients, read back to the private sample.

Flower is no part of the environment: ``make test-flower`` makes one that has it, and runs this.
"""

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from leaklab.probing.recorded import Recording, recorded, truth_of

MISSING = [name for name in ("flwr", "ray") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.workflow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"without {', '.join(MISSING)}: `make test-flower` installs it and runs this"
    ),
]
APP = Path(__file__).with_name("app.py")
CLIENTS, ROUNDS, CLIP = 2, 3, 1e-3
# without these, workers have to wait for everything else that runs on the machine, and the run is reported
QUIET = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}


def network():
    """That of the app, with other values."""
    return nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()


@dataclass(frozen=True)
class Training:
    """What a training left, and what it said."""

    folder: Path
    said: str

    def recorded(self, name) -> Recording:
        return recorded(self.folder / name, network())

    def errors(self, exchange):
        """Return how far the first layer's input, dW / db in its largest row, is from the private sample."""
        weight, bias = exchange.direction("0.weight"), exchange.direction("0.bias")
        row = bias.abs().argmax()
        inputs, _ = truth_of(self.folder / "private", exchange)
        return float((weight[row] / bias[row] - inputs[0]).abs().max())


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """Train once for each scenario of ``app.py``."""
    done = {}

    def train(name):
        if name not in done:
            folder = tmp_path_factory.mktemp(name)
            known = {**os.environ, **QUIET, "FLWR_HOME": str(folder / "flwr"), "LEAKLAB_RECORD": str(folder / "leaves")}
            run = subprocess.run([sys.executable, APP, name, folder], capture_output=True, text=True, check=False,
                                 env=known, timeout=900)  # fmt: skip
            assert run.returncode == 0, run.stderr[-3000:]
            assert "a client failed" not in run.stderr
            done[name] = Training(folder, run.stdout + run.stderr)
        return done[name]

    return train


def norm(exchange):
    return float(sum(exchange.direction(name).square().sum() for name in exchange.sent).sqrt())


def test_the_message_api_is_recorded_every_second_round_and_read_exactly(training):
    made = training("current")
    found = made.recorded("leaves")
    assert sorted(one.facts["round"] for one in found) == [1, 1, 3, 3]
    assert len({one.facts["node"] for one in found}) == CLIENTS
    for one in found:
        assert made.errors(one) < 1e-12
        assert one.facts["config"]["lr"] == 0.1
        assert one.facts["metrics"] == {"num-examples": 1, "loss": 0.5}
        assert set(one.sent) == set(network().state_dict())


def test_a_folder_that_cannot_be_written_is_a_line_of_each_process_and_all_rounds_are_trained(training):
    made = training("current")
    assert 1 <= made.said.count("leaklab does not record into /proc/nowhere") <= 2
    assert len(list((made.folder / "private").glob("truth-*"))) == CLIENTS * ROUNDS


def test_the_legacy_api_gets_names_and_loses_no_buffer(training):
    made = training("legacy")
    assert made.recorded("leaves").unnamed is False
    assert recorded(made.folder / "leaves").unnamed
    found = made.recorded("leaves")
    assert len(found) == CLIENTS * ROUNDS
    for one in found:
        assert list(one.sent) == list(network().state_dict())
        assert one.sent["1.num_batches_tracked"].dtype == torch.int64
        assert made.errors(one) < 1e-12
        assert one.facts["metrics"]["num_examples"] == 1
    assert sorted({one.facts["round"] for one in found}) == [1, 2, 3]


def test_outside_of_clipping_it_sees_what_leaves_and_inside_what_was_trained(training):
    made = training("clipping")
    leaves, inner = made.recorded("leaves"), made.recorded("inner")
    assert len(leaves) == len(inner) == CLIENTS * ROUNDS
    assert max(map(norm, leaves)) < CLIP * 1.001
    assert min(map(norm, inner)) > 10 * CLIP
    # one factor on all of the update hides nothing of a ratio
    assert max(map(made.errors, leaves)) < 1e-6
    assert max(map(made.errors, inner)) < 1e-12


def test_noise_of_local_privacy_is_in_what_leaves(training):
    made = training("noise")
    leaves, inner = made.recorded("leaves"), made.recorded("inner")
    assert len(leaves) == CLIENTS * ROUNDS
    assert min(map(made.errors, leaves)) > 1e-4
    assert max(map(made.errors, inner)) < 1e-12


def test_what_secure_aggregation_masks_is_said_and_read_only_inside_of_it(training):
    made = training("secure")
    leaves, inner = made.recorded("leaves"), made.recorded("inner")
    assert len(leaves) == 0
    assert len(leaves.masked) == len(inner) == CLIENTS * ROUNDS
    assert any("6 exchanges left the client masked by secure aggregation" in line for line in leaves.lines())
    assert any("recorded before secure aggregation masked them" in line for line in inner.lines())
    assert max(map(made.errors, inner)) < 1e-12
    assert {one.facts["round"] for one in inner} == {1, 2, 3}
