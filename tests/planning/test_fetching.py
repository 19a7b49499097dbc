"""What jobs read from outside is known before they run, and what cannot be had is named."""

import pytest

from leaklab.planning import fetching
from leaklab.planning.fetching import (
    Needed,
    described,
    files_to_make,
    needed_by,
    refuse_too_few,
    weights_not_to_be_had,
)
from leaklab.planning.listings import planned_jobs
from leaklab.planning.plan import PREPARED, Job
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.specs.capture import CaptureSpec


def nobody(addresses):
    return set()


@pytest.mark.parametrize(
    ("item", "scale", "datasets", "weights"),
    [
        ("lrp figure2", "demo", {"digits"}, set()),
        ("lrp table7", "demo", {"text/printed-sentences"}, set()),
        ("lrp table3", "small", {"fashion-mnist"}, {"alexnet", "squeezenet1.1", "vgg16"}),
        ("lrp figure11", "paper", {"imagenet-validation"}, {"vgg16", "biggan-deep-256"}),
        ("hyperfl table2", "paper", {"cifar10", "emnist-byclass"}, {"resnet18-imagenet"}),
    ],
)
def test_data_and_weights_of_an_item(item, scale, datasets, weights):
    needed = needed_by(planned_jobs(item, scale))
    assert datasets <= set(needed.datasets)
    assert weights <= set(needed.weights)
    assert not (scale == "demo" and needed.weights)


def test_a_paper_needs_what_its_items_need():
    every, one = (needed_by(planned_jobs(name, "demo")) for name in ("lrp", "lrp figure2"))
    assert set(one.datasets) < set(every.datasets)


def test_prepared_files_are_not_made_again_and_what_nobody_has_is_named(tmp_path, monkeypatch):
    config = PREPARED.parents[1].absolute() / "config"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(config)
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    needed = Needed(("cinic10", "digits", "mnist", "text/printed-sentences"), ())
    files, gone = files_to_make(needed, nobody)
    assert [file.as_posix() for file in files] == [
        "data/prepared/digits.safetensors", "data/prepared/text/printed-sentences.json"]  # fmt: skip
    assert set(gone) == {"cinic10", "mnist"}
    assert all(reason.startswith("data not here: ") for reason in gone.values())
    for name in ("digits.safetensors", "digits.json"):
        (tmp_path / PREPARED / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / PREPARED / name).touch()
    assert len(files_to_make(needed, nobody)[0]) == 1


def test_weights_that_cannot_be_had_are_told_with_the_reason(monkeypatch):
    monkeypatch.setattr(fetching, "why_unavailable", {"alexnet": "no network", "squeezenet1.1": None}.get)
    assert weights_not_to_be_had(Needed((), ("alexnet", "squeezenet1.1"))) == {"alexnet": "no network"}


CARD = {"shape": [3, 64, 64], "mean": [0.4812, 0.45, 0.4], "std": [0.2] * 3, "train_size": 1200, "test_size": 4,
        "num_classes": 3}  # fmt: skip


@pytest.fixture
def card(tmp_path, monkeypatch):
    """Return what writes the card of the data set ``scans``."""
    monkeypatch.chdir(tmp_path)
    return lambda **more: write_json(PREPARED / "scans.json", {**CARD, **more})


def test_a_data_set_is_told_in_one_line_with_what_was_left_out(card):
    assert described("scans") == described("text/scans") == "here"
    card()
    plain = "1,200 training and 4 test images of 3 classes, 3x64x64, mean 0.48 0.45 0.40"
    assert described("scans") == plain
    card(
        left_out={
            ".txt": {"count": 2, "example": "train/a/M\\xfcller.txt"},
            "hidden": {"count": 1, "example": "train/.ipynb_checkpoints"},
        },
        noticed={"turned as EXIF says": {"count": 1, "example": "test/b/3.jpg"}},
    )
    assert described("scans") == (
        f"{plain}; left out: 2 .txt (train/a/M\\xfcller.txt), 1 hidden (train/.ipynb_checkpoints); "
        "taken otherwise than stored: 1 turned as EXIF says (test/b/3.jpg)"
    )


@pytest.mark.parametrize("content", [{}, [], {**CARD, "train_size": None}, {**CARD, "left_out": 3}])
def test_a_damaged_card_is_one_line(card, content):
    card()
    write_json(PREPARED / "scans.json", content)
    with pytest.raises(UserError, match=r"scans\.json is damaged: delete it"):
        described("scans")


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ({"count": 5}, "asks for 5 images of the test part of scans, which has 4"),
        ({"count": 2, "indexes": [0, 4]}, "asks for its positions up to 4 of the test part of scans, which has 4"),
        ({"count": 1201, "split": "train"}, "asks for 1201 images of the train part"),
        ({"count": 4}, None),
        ({"count": 1200, "split": "train"}, None),
    ],
)
def test_more_images_than_there_are_is_told_when_they_are_fetched(card, images, said):
    job = Job(CaptureSpec(dataset="scans", images=images, model="mlp", defense="none"))
    refuse_too_few([job])  # before it is prepared nobody knows
    card()
    if said is None:
        refuse_too_few([job])
    else:
        with pytest.raises(UserError, match=f"{said}.*ask for fewer, or give the data set more"):
            refuse_too_few([job])
