"""An update that is zero, below the rounding of its weights or of a diverged training says so where it is made."""

import json

import pytest
import torch

from leaklab.captures.capture import capture
from leaklab.captures.observe import silent
from leaklab.federated.checkpoint import DIVERGED
from leaklab.federated.engine import train
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

MLP = {"name": "mlp", "settings": {"dropout": 0.0, "hidden": 16}}
TWO = {"dataset": "digits", "images": {"count": 2}, "model": MLP, "dtype": "float32"}
ROUNDED, ZERO, DIVERGED_TRAINING = "update below rounding", "zero update", "diverged training"
TRAINING = {
    "dataset": "digits", "partition": {"name": "iid", "clients": 2}, "model": MLP, "defense": "none", "rates": [[0.1]],
    "rounds": 3, "local_steps": 2, "batch_size": 5, "seeds": [1], "dtype": "float32",
}  # fmt: skip


def captured(dataset, trained=None, **changes):
    return capture(CaptureSpec.model_validate({**TWO, **changes}), dataset, (), trained)[0]


def state_of(spec, replicate=0):
    return {"train": spec.model_dump() | {"until": spec.rounds}, "replicate": replicate}


@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_two_clients_that_train_one_step_in_float32_at_a_rate_of_1e_9_say_nothing(dataset, kind):
    seen = captured(dataset, rate=1e-9, kind=kind)
    assert seen.silent == dict.fromkeys(range(2), ROUNDED)
    assert seen.speaking == []
    assert any(value.any() for value in seen.update.values())  # the weights near zero did move
    assert captured(dataset, rate=1e-9, kind=kind, dtype="float64").silent == {}
    assert captured(dataset, kind=kind).silent == {}


def test_a_clipping_below_the_rounding_of_the_weights_says_nothing(dataset):
    defense = {"name": "gradient-clipping", "settings": {"bound": 1.0e-6}}
    assert captured(dataset, defense=defense).silent == dict.fromkeys(range(2), ROUNDED)
    assert captured(dataset, defense=defense, dtype="float64").silent == {}


@pytest.mark.parametrize(("dtype", "speaks"), [("float32", False), ("float64", True)])
def test_a_converged_network_says_nothing_in_float32(dataset, dtype, speaks):
    """The network of a training that separates its samples, with outputs so far apart that no loss is left."""
    deal = [torch.arange(20 * client, 20 * client + 20) for client in range(2)]
    spec = TrainSpec.model_validate(
        {**TRAINING, "rounds": 150, "batch_size": 20, "rates": [[0.5]], "evaluate": ["train"]}
    )
    trained = train(spec, dataset, deal)
    assert trained.table["train_loss"].iloc[-1] < 0.1
    weights = {name: value * (3 if name.startswith("fc2") else 1) for name, value in trained.weights.items()}
    seen = captured(
        dataset,
        weights,
        images={"count": 4, "split": "train", "indexes": [1, 2, 3, 4]},
        state=state_of(spec),
        dtype=dtype,
    )
    assert set(seen.silent.values()) <= {ROUNDED, ZERO}
    assert len(seen.silent) == (0 if speaks else 4)


def test_frozen_layers_and_rows_without_change_are_no_rounding():
    weights = {"table.weight": torch.full((1000, 4), 100.0), "fc.bias": torch.zeros(3)}
    update = {name: torch.zeros(2, *value.shape) for name, value in weights.items()}
    update["table.weight"][0, 7] = 1e-3  # one word of a thousand
    assert silent(update, weights.__getitem__, 1.0) == {1: ZERO}
    assert silent(update, weights.__getitem__, -1e-3) == {0: ROUNDED, 1: ZERO}


def test_an_update_is_below_the_rounding_where_most_of_it_is_rounding():
    """Held against float64: what is called rounding is off by more than 70 % of the update, what speaks by less."""
    draws = stream(0, "weights and steps")
    weight, step = draws.normal(500, 40), draws.normal(500, 40)
    for size in torch.logspace(-10, -5, 21, dtype=torch.float64):
        start = weight.float()
        update = {"fc.weight": ((start.double() + size * step).float() - start)[None]}
        error = (update["fc.weight"][0].double() - size * step).norm() / (size * step).norm()
        speaks = silent(update, {"fc.weight": start}.__getitem__, 1.0) == {}
        assert speaks == (error < 0.7), (float(size), float(error))


class TestDivergedTraining:
    @pytest.fixture(scope="class")
    def sweep(self, dataset):
        changes = {"rates": [[1e-9], [1000.0]], "weight_decay": 1.0e3, "rounds": 60, "local_steps": 8}
        spec = TrainSpec.model_validate({**TRAINING, **changes})
        return spec, train(spec, dataset, [torch.arange(40), torch.arange(40, 80)])

    def test_a_sweep_says_which_replicates_diverged_and_when(self, sweep):
        _, found = sweep
        assert found.diverged == 1
        assert found.diverged_after[0] == -1
        assert 0 <= found.diverged_after[1] < 60

    def test_what_is_captured_from_it_says_so_and_the_other_replicate_does_not(self, dataset, sweep):
        spec, found = sweep
        marked = {**found.weights, DIVERGED: found.diverged_after}
        for replicate, silence in ((0, {}), (1, dict.fromkeys(range(2), DIVERGED_TRAINING))):
            seen = captured(dataset, marked, state=state_of(spec, replicate), dtype="float64")
            assert seen.silent == silence
            assert all(value.isfinite().all() for value in seen.update.values())

    def test_no_network_is_built_on_a_backbone_that_diverged(self, dataset, sweep):
        model = {"name": "resnet-small-adapted", "settings": {}}
        own = {key: value for key, value in TRAINING.items() if key != "model"}
        backbone = TrainSpec.model_validate({**own, "model": "resnet-small", "rates": [[1e3]], "weight_decay": 1e3})
        spec = TrainSpec.model_validate({**own, "model": model, "backbone": {"train": backbone.model_dump()}})
        saved = {DIVERGED: torch.tensor([2])}
        with pytest.raises(UserError, match="the backbone's training diverged after 2 rounds: lower its rate"):
            train(spec, dataset, [torch.arange(40), torch.arange(40, 80)], pretrained=saved)


class TestFiles:
    @staticmethod
    def written(tmp_path, observation, knowledge):
        files = tmp_path / "observation.safetensors", tmp_path / "facts.json"
        save_observation(*files, observation, knowledge)
        return files

    def test_silence_travels_with_the_observation_and_its_parts(self, dataset, tmp_path):
        observation, knowledge, _ = capture(CaptureSpec.model_validate({**TWO, "rate": 1e-9}), dataset)
        files = self.written(tmp_path, observation, knowledge)
        found = load_observation(*files)[0]
        assert found.silent == observation.silent
        assert found.select([1]).silent == {1: ROUNDED}

    def test_an_ordinary_file_does_not_speak_of_silence(self, dataset, tmp_path):
        observation, knowledge, _ = capture(CaptureSpec.model_validate(TWO), dataset)
        files = self.written(tmp_path, observation, knowledge)
        assert "silent" not in json.loads(files[1].read_text())
        assert load_observation(*files)[0].silent == {}

    def test_a_zero_update_of_a_file_that_does_not_say_so_is_found(self, dataset, tmp_path):
        observation, knowledge, _ = capture(CaptureSpec.model_validate(TWO), dataset)
        for value in observation.update.values():
            value[1] = 0
        files = self.written(tmp_path, observation, knowledge)
        assert load_observation(*files)[0].silent == {1: ZERO}
