"""Training leaves no tensor behind on the processor: on a device that refuses such it gives the same numbers."""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from leaklab.defenses.noise import AdditiveNoise
from leaklab.federated.engine import train
from leaklab.federated.population import Population
from leaklab.records import plugins

SMALL_VIT = {"patch": 8, "width": 8, "blocks": 1, "heads": 2}
MODELS = {
    "resnet-small": {"width": 4},
    "resnet-small-adapted": {"width": 4},
    "vit": SMALL_VIT,
    "vit-adapted": SMALL_VIT,
}
# trained one model at a time like resnet-small, with far more layers for the device to compile
TOO_DEEP = {"resnet-18", "resnet-18-adapted", "resnet-152", "rexnet"}
# no training can use them; captures can (tests/captures/test_lazy_device.py)
OF_CAPTURES = {"bsp", "lsp", "hide-bn", "hide-classifier"}
DEFENSES = {"gradient-clipping": {"bound": 0.1}, "scaled-rate": {"class_offset": 0.5}}
HYPERNETWORK = {"embedding": 3, "hidden": 4}
ALGORITHMS = {"hyperfl": HYPERNETWORK, "pfedhn": HYPERNETWORK}


@pytest.fixture
def both(spec, dataset, clients, lazy):
    """Return a function that trains on the processor and on the lazy device."""

    def run(**changes):
        small = {"model": "cnn-small", "rates": ((0.05,), (0.1,)), "seeds": (5,), "rounds": 2, "local_steps": 2,
                 "batch_size": 6, "partition": {"name": "two-clients", "tests": 6}}  # fmt: skip
        asked = type(spec).model_validate({**spec.model_dump(), **small, **changes})
        tests = [torch.arange(6), torch.arange(6, 12)]
        return [train(asked, dataset, clients[:2], tests=tests, device=device) for device in ("cpu", lazy)]

    return run


def assert_same(here, there, rtol=1e-12, atol=1e-12):
    for one, other in ((here.weights, there.weights), (here.clients, there.clients)):
        assert_close(other, one, rtol=rtol, atol=atol)
    pd.testing.assert_frame_equal(here.table, there.table, rtol=rtol, atol=atol)
    assert (here.diverged, here.client_steps) == (0, there.client_steps)


@pytest.mark.parametrize("model", sorted(set(plugins.available("models")) - TOO_DEEP))
def test_every_form_of_network_trains_there(both, model):
    assert_same(*both(model={"name": model, "settings": MODELS.get(model, {})}, rounds=1, rates=((0.05,),)))


@pytest.mark.parametrize("defense", sorted(set(plugins.available("defenses")) - OF_CAPTURES))
def test_every_defense_works_there(both, defense):
    steps = {"local_steps": 1} if defense == "masked-sum" else {}
    assert_same(*both(defense={"name": defense, "settings": DEFENSES.get(defense, {})}, rounds=1, **steps))


@pytest.mark.parametrize("algorithm", plugins.available("federated/algorithms"))
def test_every_algorithm_works_there(both, algorithm):
    chosen = {"name": algorithm, "settings": ALGORITHMS.get(algorithm, {})}
    assert_same(*both(algorithm=chosen, evaluate=("own-test",)))


@pytest.mark.parametrize(
    "changes",
    [
        *({"optimizer": name} for name in plugins.available("federated/optimizers")),
        *({"schedule": name} for name in plugins.available("federated/schedules")),
        *({"augmentation": name} for name in plugins.available("data/augmentations")),
        {"optimizer": {"name": "sgd", "momentum": 0.5}, "evaluate": ("test", "train"), "clients_per_round": 1},
        {"watch": ("local-loss", "extractor-change")},
        {"goal": {"metric": "test_accuracy", "value": 1.0}},
    ],
    ids=str,
)
def test_all_else_that_a_training_can_do_works_there(both, changes):
    assert_same(*both(**changes))


def test_single_precision_differs_by_its_roundings(both):
    assert_same(*both(dtype="float32"), rtol=1e-5, atol=1e-6)


def test_an_interrupted_training_goes_on_there(both, spec, dataset, clients, lazy, tmp_path):
    asked = type(spec).model_validate({**spec.model_dump(), "rounds": 2, "local_steps": 1})
    resumed = partial(train, asked, dataset, clients, device=lazy, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    resumed(track=lambda rounds, total, label: list(rounds)[:1])
    again = resumed()
    assert again.client_steps == 4 * 3
    assert_close(again.weights, train(asked, dataset, clients).weights, rtol=1e-12, atol=1e-12)


def test_labels_that_were_left_behind_are_found(both, monkeypatch):
    whole = Population.of

    def forgetful(*args):
        people = whole(*args)
        return replace(people, labels=people.labels.cpu())

    monkeypatch.setattr(Population, "of", forgetful)
    with pytest.raises((AssertionError, RuntimeError), match=r"different devices|not a lazy tensor"):
        both()


@pytest.mark.parametrize("mix", [torch.add, lambda value, noise: torch.where(noise > 0, value, 0.0)])
def test_a_defense_that_draws_on_the_processor_is_found(both, monkeypatch, mix):
    def noisy(self, gradients, context):
        return {name: mix(value, torch.ones(value.shape, dtype=value.dtype)) for name, value in gradients.items()}

    monkeypatch.setattr(AdditiveNoise, "gradient", noisy)
    with pytest.raises((AssertionError, RuntimeError), match=r"different devices|not a lazy tensor"):
        both(defense="additive-noise")
