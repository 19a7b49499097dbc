"""What jobs read from outside is known before they run, and what cannot be had is named."""

import pytest

from leaklab.planning import fetching
from leaklab.planning.fetching import Needed, files_to_make, needed_by, weights_not_to_be_had
from leaklab.planning.listings import planned_jobs
from leaklab.planning.plan import PREPARED


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
