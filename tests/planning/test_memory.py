"""What jobs are expected to hold: more with images, updates, weights and wider types; some is asked for to spare."""

import pytest

from leaklab.planning.memory import SPARE, images_mb, memory_mb, peak_mb
from leaklab.specs.stages import STAGES

CAPTURE = {"dataset": "mnist", "images": {"count": 10}, "model": "mlp", "dtype": "float32"}
TRAIN = {"dataset": "mnist", "partition": {"name": "iid", "settings": {"clients": 10}}, "model": "mlp",
         "rates": [[0.1]], "rounds": 1, "local_steps": 1, "batch_size": 8, "seeds": [0]}  # fmt: skip


def peak(stage, told, **changes):
    return peak_mb(STAGES[stage].model_validate({**told, **changes}))


def test_all_images_of_a_data_set_are_its_numbers_in_four_bytes():
    assert images_mb("mnist") == pytest.approx(70_000 * 784 * 4 / 1e6)
    assert images_mb("cifar10") == pytest.approx(70_000 * 3072 * 4 / 1e6)
    assert images_mb("digits") < images_mb("mnist") / 30


def test_a_training_holds_more_with_clients_larger_images_and_a_wider_type():
    usual = peak("train", TRAIN)
    many = {"name": "iid", "settings": {"clients": 10_000}}
    assert peak("train", TRAIN, partition=many) > usual + 200
    assert peak("train", TRAIN, dataset="cifar10") > 2 * usual
    assert peak("train", TRAIN, dtype="float64") > usual + images_mb("mnist")


def test_updates_of_a_large_network_are_what_a_capture_holds():
    wide = {"name": "mlp", "settings": {"hidden": 12_579}}
    few, many = (peak("capture", CAPTURE, model=wide, images={"count": count}) for count in (10, 100))
    assert many - few == pytest.approx(90 * 3 * 40, rel=0.1)


def test_a_batch_in_a_line_search_keeps_its_pairs():
    def attack(attack, batch):
        capture = {**CAPTURE, "model": "dlg-lenet", "images": {"count": 10 * batch}, "batch_size": batch}
        return peak("attack", {"capture": capture, "attack": attack, "iterations": 10})

    pairs = 2 * 100 * 784 * 4e-6
    assert attack("csdlg", 16) - attack("csdlg", 1) > 10 * 15 * pairs


def test_what_is_asked_for_covers_what_is_expected_and_some_to_spare():
    spec = STAGES["train"].model_validate({**TRAIN, "dataset": "cifar10", "dtype": "float64"})
    assert memory_mb(spec) >= SPARE * peak_mb(spec) > 4000
    assert memory_mb(STAGES["train"].model_validate(TRAIN)) == 4000
