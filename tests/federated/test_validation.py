"""What clients set aside tests the global model, and trains nothing."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from leaklab.federated.checkpoint import Stopped
from leaklab.federated.engine import train
from leaklab.records.errors import UserError

ASIDE = [torch.arange(70, 75), torch.tensor([80, 76]), torch.tensor([89])]
PARTITION = {"name": "two-clients", "validation": 0.2}


def varied(spec, **changes):
    return type(spec).model_validate(spec.model_dump() | changes)


def with_validation(spec, **changes):
    return varied(spec, **{"partition": PARTITION, "evaluate": ("validation", "test"), **changes})


def test_accuracy_on_validation_is_that_on_a_test_part_with_these_images(spec, dataset, clients):
    together = torch.cat(ASIDE)
    swapped = replace(dataset, test_images=dataset.train_images[together], test_labels=dataset.train_labels[together])
    found = train(with_validation(spec), dataset, clients, validation=ASIDE)
    oracle = train(varied(spec, partition=PARTITION), swapped, clients)
    assert len(found.table) == len(oracle.table) == 12
    for number in ("accuracy", "loss"):
        assert found.table[f"validation_{number}"].tolist() == oracle.table[f"test_{number}"].tolist()
    assert found.table["validation_loss"].tolist() != found.table["test_loss"].tolist()


def test_the_test_changes_no_weight(spec, dataset, clients):
    plain, tested = (
        train(one, dataset, clients, validation=ASIDE).weights
        for one in (varied(spec, partition=PARTITION), with_validation(spec))
    )
    assert_close(tested, plain, rtol=0, atol=0)


def test_an_interrupted_training_goes_on_only_with_the_images_that_it_tested(spec, dataset, clients, tmp_path, caplog):
    spec, checkpoint = with_validation(spec), tmp_path / "checkpoint.safetensors"
    whole = train(spec, dataset, clients, validation=ASIDE, checkpoint=checkpoint, checkpoint_seconds=0)
    again = train(spec, dataset, clients, validation=ASIDE, checkpoint=checkpoint)
    assert again.client_steps == 0
    assert again.table.equals(whole.table)
    others = train(spec, dataset, clients, validation=[*ASIDE[:2], torch.tensor([88])], checkpoint=checkpoint)
    assert "other data" in caplog.text
    assert others.client_steps > 0


def test_a_longer_training_goes_on_from_a_shorter_one_that_was_validated(spec, dataset, clients):
    spec = with_validation(spec)
    short = train(varied(spec, until=2), dataset, clients, validation=ASIDE)
    stopped = Stopped.read(short.left(), short.table.to_dict("records"))
    found = train(spec, dataset, clients, validation=ASIDE, shorter=stopped)
    assert found.table.equals(train(spec, dataset, clients, validation=ASIDE).table)


def test_nothing_set_aside_is_refused(spec, dataset, clients):
    for aside in ((), [torch.tensor([], dtype=torch.int64)] * 3):
        with pytest.raises(UserError, match=r"^evaluate: validation needs samples that clients set aside"):
            train(with_validation(spec), dataset, clients, validation=aside)
    with pytest.raises(ValueError, match="validation above 0"):
        varied(spec, evaluate=("validation",))


def test_positions_beyond_the_training_part_are_refused(spec, dataset, clients):
    with pytest.raises(UserError, match="names training image 90, but stripes has 90"):
        train(with_validation(spec), dataset, clients, validation=[torch.tensor([90])])
