"""What was measured of a device, and how plans use it; what plans say of disk."""

import pytest

from leaklab.planning.devices import Device, keep_measured, measured_device, work_of
from leaklab.planning.disk import disk_mb
from leaklab.planning.estimate import estimate
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.records.errors import UserError
from leaklab.records.files import write_text
from leaklab.records.traits import model_traits
from leaklab.specs.stages import STAGES

TRAIN = {
    "dataset": "mnist",
    "partition": {"name": "iid", "clients": 10},
    "model": "mlp",
    "rates": [[0.1], [0.2]],
    "rounds": 10,
    "local_steps": 100,
    "batch_size": 32,
    "seeds": [1, 2],
}
CAPTURE = {"dataset": "mnist", "images": {"count": 20}, "model": "dlg-lenet"}
ATTACK = {"capture": CAPTURE, "attack": "idlg", "iterations": 100}
GENERATIVE = {"capture": CAPTURE, "attack": "ggl", "generator": {"dataset": "mnist", "steps": 10}, "iterations": 10}
FACTORS = {"train/mlp": 0.5, "train/dlg-lenet": 0.2, "attack/dlg-lenet/idlg": 0.1, "attack/mlp/ig": 0.7}


def spec(stage, **changes):
    return STAGES[stage].model_validate(changes)


@pytest.mark.parametrize(
    ("stage", "changes", "factor"),
    [
        ("train", TRAIN, 0.5),
        ("train", TRAIN | {"model": "cnn-small"}, 0.5),  # not measured: the worst of all trainings
        ("attack", ATTACK, 0.1),
        ("attack", ATTACK | {"attack": "dlg"}, 0.7),
        ("attack", GENERATIVE, 0.2),  # a candidate is a step of the victim
        ("score", {"attack": ATTACK, "metrics": ["mse"]}, 1.0),
        ("partition", {"dataset": "mnist", "partition": {"name": "two-clients"}}, 1.0),
    ],
)
def test_a_job_takes_the_factor_of_its_work(stage, changes, factor):
    one = spec(stage, **changes)
    assert Device("cuda", "a GPU", FACTORS).seconds(one) == pytest.approx(factor * cost(one).seconds)
    assert Device().seconds(one) == cost(one).seconds


def test_the_sum_on_a_gpu_tells_its_hours_from_those_of_processors():
    jobs = [Job(spec("train", **TRAIN)), Job(spec("score", attack=ATTACK, metrics=["mse"]))]
    here, there = estimate(jobs), estimate(jobs, device=Device("cuda", "a GPU", FACTORS))
    assert (here.gpu_seconds, here.seconds) == (0.0, sum(cost(job.spec).seconds for job in jobs))
    assert there.gpu_seconds == pytest.approx(0.5 * cost(jobs[0].spec).seconds)
    assert there.seconds == cost(jobs[1].spec).seconds
    assert there.waiting_seconds == pytest.approx(there.gpu_seconds + there.seconds)


def test_what_is_measured_of_one_device_leaves_the_other(tmp_path):
    file = tmp_path / "calibration.json"
    assert measured_device("cuda", file) == Device("cuda")
    for device in (Device("cuda", "a GPU", FACTORS), Device("cpu", "a processor", {"train/mlp": 2.0})):
        keep_measured(device, file)
        assert measured_device(device.kind, file) == device
    assert measured_device("cuda", file).name == "a GPU"


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"cpu": {}}', '{"cpu": {"name": "x", "factors": {"train/mlp": 0}}}',
     '{"cpu": {"name": "x", "factors": {"train/mlp": "2"}}}', '{"cpu": {"name": "x", "factors": {"train/mlp": NaN}}}'],
)  # fmt: skip
def test_a_damaged_measurement_is_one_line(tmp_path, content):
    write_text(tmp_path / "calibration.json", content)
    with pytest.raises(UserError, match=r"calibration\.json .*damaged.*: delete it"):
        measured_device("cpu", tmp_path / "calibration.json")


def test_kinds_of_work_are_names_of_plug_ins():
    assert work_of(spec("train", **TRAIN)) == "train/mlp"
    assert work_of(spec("attack", **ATTACK)) == "attack/dlg-lenet/idlg"


def test_disk_grows_with_what_is_kept():
    one = disk_mb(spec("train", **TRAIN | {"seeds": [1], "rates": [[0.1]]}))
    assert disk_mb(spec("train", **TRAIN)) == pytest.approx(4 * one, rel=0.5)
    personal = disk_mb(spec("train", **TRAIN | {"algorithm": "local-only", "seeds": [1], "rates": [[0.1]]}))
    assert personal == pytest.approx(one + 10 * model_traits("mlp").weights_mb)
    hyper = disk_mb(spec("train", **TRAIN | {"algorithm": "hyperfl", "seeds": [1], "rates": [[0.1]]}))
    assert hyper > 129 * model_traits("mlp").weights_mb
    few, many = (disk_mb(spec("capture", **CAPTURE | {"draws": draws})) for draws in (1, 10))
    assert many == pytest.approx(10 * few, rel=0.1)


def test_sizes_of_networks_are_those_of_the_networks():
    from leaklab.models.base import Architecture
    from leaklab.records import plugins

    for name, shape in (("dlg-lenet", (1, 28, 28)), ("cnn-leaky", (1, 28, 28)), ("resnet-18", (3, 32, 32)),
                        ("cnn-mnist", (1, 28, 28)), ("logistic-regression", (1, 28, 28))):  # fmt: skip
        architecture: Architecture = plugins.load("models", name, {})
        size = sum(4e-6 * value.numel() for value in architecture.build(shape, 10).parameters())
        assert size / 2 < model_traits(name).weights_mb < 2 * size, (name, size)
