from pathlib import Path

import pytest
import yaml

from leaklab.data.catalog import find_entry, load_catalog
from leaklab.data.prepare import check_readers
from leaklab.records.errors import UserError

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "config/datasets.yaml"
NAMES = {"digits", "faces", "photographs", "mnist", "fashion-mnist", "cifar10", "cifar100", "cifar100-pretraining",
         "emnist-balanced", "emnist-byclass", "lfw", "femnist", "imagenet", "imagenet-validation",
         "imagenet-sample", "imagenet-full", "tiny-imagenet", "cinic10"}  # fmt: skip
MIRROR_ONLY = {"imagenet-sample"}
SUBSTITUTES = {"cifar100", "cifar100-pretraining", "emnist-balanced", "emnist-byclass", "lfw", "imagenet",
               "imagenet-sample", "tiny-imagenet"}  # fmt: skip
BY_HAND = {"femnist", "imagenet", "imagenet-full", "imagenet-validation", "cinic10"}


@pytest.fixture
def changed(tmp_path):
    """Return a function that writes the catalog with one text replaced."""

    def write(old, new):
        text = CATALOG.read_text(encoding="utf-8")
        assert old in text
        path = tmp_path / "datasets.yaml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return path

    return write


def message(path):
    with pytest.raises(UserError) as caught:
        load_catalog(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_all_datasets_are_there_with_working_readers():
    catalog = load_catalog(CATALOG)
    assert set(catalog) == NAMES
    for name, entry in catalog.items():
        check_readers(name, entry)
        assert entry.embedded or (entry.mirror and (entry.official or name in {*BY_HAND, *MIRROR_ONLY}))


def test_only_data_that_users_make_themselves_are_taken_without_a_checksum():
    catalog = load_catalog(CATALOG)
    unknown = {
        name
        for name, entry in catalog.items()
        if entry.mirror and None in [f.sha256 for f in entry.mirror.files.values()]
    }
    assert unknown == BY_HAND
    assert all(catalog[name].instructions for name in BY_HAND)


def test_exactly_what_falls_short_of_the_published_data_is_marked_as_a_substitute():
    catalog = load_catalog(CATALOG)
    marked = {name for name, entry in catalog.items() if entry.mirror and entry.mirror.substitute}
    assert marked == SUBSTITUTES
    assert not any(entry.official.substitute for entry in catalog.values() if entry.official)


def test_a_misspelt_key_is_named_with_its_path(changed):
    assert "mnist.mirror.files.train_images.sha265: unknown key; known keys are path, sha256" in message(
        changed("sha256: 440fcabf", "sha265: 440fcabf")
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("num_classes: 47", "num_classes: many", "emnist-balanced.num_classes"),
        ("num_classes: 47", "num_classes: 46", "emnist-balanced: has 47 class_names for 46 classes"),
        ("path: data/MNIST", "path: ../data/MNIST", "must be the relative path of a file, without '..'"),
        ("url: https://ossci", "url: ftp://ossci", "mnist.official.files.train_images.url"),
        ("    md5: 68331da3eb755a505a502b5aacb3c201", "", "give either sha256 or md5"),
        ("title: MNIST", "title: [MNIST", "is not valid YAML"),
        (
            "sha256: 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "sha256: null",
            "mnist: needs instructions, because a checksum is null",
        ),
        (
            "        sha256: 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609\n",
            "",
            "mnist.mirror.files.train_images.sha256: Field required",
        ),
    ],
)
def test_other_mistakes_are_one_clear_line(changed, old, new, expected):
    assert expected in message(changed(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("reader: idx", "reader: idy", "mnist.mirror.reader: unknown reader 'idy': choose from arrays, cifar-archive"),
        ("reader: idx", "reader: {name: idx, upright: true}", "reader 'idx' takes the settings transposed"),
    ],
)
def test_reader_mistakes_are_named_before_anything_is_fetched(changed, old, new, expected):
    with pytest.raises(UserError, match=r"mnist\.mirror\.reader") as caught:
        check_readers("mnist", load_catalog(changed(old, new))["mnist"])
    assert expected in str(caught.value)


def test_missing_catalog_and_unknown_dataset(tmp_path):
    assert "is missing" in message(tmp_path / "datasets.yaml")
    with pytest.raises(UserError, match="unknown dataset 'mnits': choose from digits"):
        find_entry("mnits", load_catalog(CATALOG))


def test_the_catalog_does_not_depend_on_the_order_of_its_keys(tmp_path):
    path = tmp_path / "sorted.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(CATALOG.read_text(encoding="utf-8")), sort_keys=True))
    assert load_catalog(path) == load_catalog(CATALOG)
