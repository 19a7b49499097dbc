"""Clients of a capture leave no tensor behind on the processor: on a device that refuses such they send the same.

A capture itself works on the processor; what its clients do is the code that trains (``federated/local.py``), with
defenses that no training can use. So what they hold is put on the device, and the updates are observed there.
"""

from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import MethodType

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from leaklab.captures.capture import hold_images
from leaklab.captures.observe import observe
from leaklab.defenses.noise import GradientClipping
from leaklab.federated.checkpoint import CLIENTS
from leaklab.federated.engine import train
from leaklab.records import plugins
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

EXACT = {"rtol": 1e-12, "atol": 1e-12}
SETTINGS = {"scaled-rate": {"class_offset": 0.5}, "gradient-clipping": {"bound": 0.1}}
MODELS = {"hide-bn": {"name": "resnet-small", "width": 4}}
HYPERNETWORK = {"embedding": 3, "hidden": 4, "classifier_steps": 0}
ALGORITHMS = {"hyperfl": HYPERNETWORK, "pfedhn": {"embedding": 3, "hidden": 4}}
# it sends nothing
SILENT = {"local-only"}


def moved(value, device):
    """Return the value with every tensor in it on the device, whatever holds it."""
    move = partial(moved, device=device)
    match value:
        case Tensor():
            return value.to(device)
        case dict():
            return {key: move(one) for key, one in value.items()}
        case list() | tuple():
            return type(value)(map(move, value))
        case partial():
            return partial(value.func, *move(value.args), **move(value.keywords))
        case MethodType() if is_dataclass(value.__self__):
            return getattr(move(value.__self__), value.__name__)
    if is_dataclass(value) and any(field.name in {"state", "received", "images"} for field in fields(value)):
        return replace(value, **{field.name: move(getattr(value, field.name)) for field in fields(value) if field.init})
    return value


@pytest.fixture
def both(dataset, lazy):
    """Return a function that captures on the processor and on the lazy device."""

    def run(deal=(), weights=None, **changes):
        spec = CaptureSpec.model_validate({
            "dataset": "digits", "images": {"count": 4, "seed": 1}, "model": "dlg-lenet", "rate": 0.05,
            "batch_size": 2, **changes,
        })  # fmt: skip
        hold = partial(hold_images, spec, dataset, deal, weights)
        # each held anew: a client's draws go on where they were left
        there = moved(hold(), lazy)
        assert {value.device.type for value in there.state.values()} == {lazy}
        return observe(spec, hold()), observe(spec, there)

    return run


def assert_same(here, there):
    (one, told, truth), (other, told_there, truth_there) = here, there
    assert other.like.device.type == "lazy"
    for part in ("update", "own", "buffers"):
        found = {name: value.cpu() for name, value in getattr(other, part).items()}
        assert_close(found, dict(getattr(one, part)), **EXACT)
    assert told == told_there
    assert_close(truth_there.rates, truth.rates, equal_nan=True, **EXACT)


@pytest.fixture
def dealt(both, dataset):
    """Return a function that does it with clients of a deal, in the second round of a training."""

    def run(algorithm, **changes):
        deal = [torch.arange(20 * client, 20 * client + 12) for client in range(3)]
        shared = {"dataset": "digits", "model": {"name": "mlp", "hidden": 6, "dropout": 0.2}, "local_steps": 2,
                  "batch_size": 2, "algorithm": algorithm, "dtype": "float64", **changes}  # fmt: skip
        training = TrainSpec.model_validate({
            **shared, "partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"], "rates": [[0.05]],
            "rounds": 3, "seeds": [2], "until": 1,
        })  # fmt: skip
        done = train(training, dataset, deal, tests=[torch.arange(4)] * 3)
        weights = {**done.weights, **{CLIENTS + name: value for name, value in done.clients.items()}}
        choice = {"partition": training.partition, "clients": [2, 0]}
        return both(deal, weights, **shared, images=choice, state={"train": training}, mode="train")

    return run


@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("defense", plugins.available("defenses"))
def test_every_defense_works_there(both, defense, kind):
    steps = 2 if kind == "delta" and defense != "masked-sum" else 1
    assert_same(*both(
        defense={"name": defense, "settings": SETTINGS.get(defense, {})}, model=MODELS.get(defense, "dlg-lenet"),
        kind=kind, local_steps=steps, draws=2, mode="train",
    ))  # fmt: skip


@pytest.mark.parametrize("algorithm", sorted(set(plugins.available("federated/algorithms")) - SILENT))
def test_clients_of_every_algorithm_work_there(dealt, algorithm):
    assert_same(*dealt({"name": algorithm, "settings": ALGORITHMS.get(algorithm, {})}))


def test_clients_step_there_by_any_optimizer_on_changed_images(dealt):
    changes = {"optimizer": "adam", "augmentation": "crop-flip-cutout", "weight_decay": 0.01}
    assert_same(*dealt("scheme2", **changes, defense="lrp"))


def test_the_mean_of_several_rounds_is_taken_there(both):
    assert_same(*both(defense="lrp", rounds=3))


def test_a_defense_that_draws_on_the_processor_is_found(both, monkeypatch):
    def clipped(self, gradients, context):
        return {name: value.clamp(max=torch.ones(value.shape, dtype=value.dtype)) for name, value in gradients.items()}

    monkeypatch.setattr(GradientClipping, "gradient", clipped)
    with pytest.raises((AssertionError, RuntimeError), match=r"different devices|not a lazy tensor"):
        both(defense="gradient-clipping")
