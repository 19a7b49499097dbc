"""What a machine takes for each kind of work, measured on cut-short specs of a plan."""

import pytest

from leaklab import calibrate
from leaklab.calibrate import calibrated, device_name, measured, noise
from leaklab.planning import devices
from leaklab.planning.devices import measured_device
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.records.errors import UserError
from leaklab.specs.stages import STAGES

TRAIN = {
    "dataset": "mnist",
    "partition": {"name": "iid", "clients": 10},
    "model": "mlp",
    "rates": [[0.1, 0.2]],
    "rounds": 1000,
    "local_steps": 100,
    "batch_size": 32,
    "seeds": [1, 2],
    "goal": {"metric": "test_accuracy", "value": 90},
}
CAPTURE = {"dataset": "mnist", "images": {"count": 20}, "model": "dlg-lenet"}
ATTACK = {"capture": CAPTURE, "attack": "idlg", "iterations": 1000}
GENERATIVE = {"capture": CAPTURE, "attack": "ggl", "generator": {"dataset": "mnist", "steps": 10}, "iterations": 10}


def jobs(*specs):
    return [Job(STAGES[stage].model_validate(spec)) for stage, spec in specs]


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "LEAST_SECONDS", 0.05)
    monkeypatch.chdir(tmp_path)


def test_each_kind_of_work_is_measured_once():
    plan = jobs(("train", TRAIN), ("train", TRAIN | {"rounds": 7}), ("attack", ATTACK), ("attack", GENERATIVE),
                ("partition", {"dataset": "mnist", "partition": {"name": "two-clients"}}))  # fmt: skip
    found = {one.work: one.factor for one in measured(plan, "cpu")}
    assert set(found) == {"attack/dlg-lenet/idlg", "train/mlp"}
    assert all(factor is not None and 0.01 < factor < 100 for factor in found.values())


def test_what_cannot_be_measured_says_why():
    wrong = ATTACK | {"capture": {**CAPTURE, "batch_size": 2}}
    (found,) = measured(jobs(("attack", wrong)), "cpu")
    assert found.factor is None
    assert "reads one label" in found.reason
    with pytest.raises(UserError, match="nothing could be measured on cpu"):
        list(calibrated(jobs(("attack", wrong)), "cpu"))


def test_measurements_are_kept_and_read():
    lines = list(calibrated(jobs(("attack", ATTACK), ("train", TRAIN)), "cpu"))
    assert lines[-1].startswith("2 kinds of work on ")
    device = measured_device("cpu")
    assert set(device.factors) == {"attack/dlg-lenet/idlg", "train/mlp"}
    spec = jobs(("train", TRAIN))[0].spec
    assert device.seconds(spec) == pytest.approx(device.factors["train/mlp"] * cost(spec).seconds)


def test_a_factor_on_other_costs_is_as_if_it_was_not_measured(monkeypatch):
    list(calibrated(jobs(("train", TRAIN)), "cpu"))
    assert measured_device("cpu").factors
    monkeypatch.setattr(devices, "unit_of", lambda work: "of another time")
    assert measured_device("cpu") == devices.Device("cpu")


@pytest.mark.parametrize(("device", "says"), [("tpu", "choose from cpu, cuda"), ("cuda", "no GPU is to be seen")])
def test_a_device_that_is_not_here_is_one_line(device, says, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match=says):
        device_name(device)


def test_noise_has_the_shape_of_its_data_set():
    assert noise("imagenet", 2, 1).shape == (3, 224, 224)
    assert noise("fashion-mnist", 6, 3).train_images.shape == (6, 1, 28, 28)
