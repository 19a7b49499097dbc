"""An edit of an item costs only what it touches: words, and what other scales compute, leave published tables alone."""

import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from leaklab.items.items import load_item, load_items
from leaklab.report.collect import item as collecting
from leaklab.report.collect.edited import only_words_changed, same_at, source_of

ITEMS = Path(__file__).parents[3] / "config/items"
KEPT = ("lrp/table2", "lrp/table6", "hyperfl/table1", "outpost/figure3", "lrp/figure4")


def edited(folder, key, old, new):
    """Return the bytes of an item, and the file of its edited copy."""
    before = (ITEMS / f"{key}.yaml").read_text(encoding="utf-8")
    assert old in before
    file = folder / "config/items" / f"{key}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before.replace(old, new, 1), encoding="utf-8")
    return before.encode(), file


@pytest.mark.parametrize("key", KEPT)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reading: >-\n", "reading: >-\n  Other words.\n"),
        ("shows: >-\n", "shows: >-\n  Other words.\n"),
        ("number: ", "number: 1"),
        ("# ", "# another comment "),
    ],
)
def test_words_change_no_table(tmp_path, key, old, new):
    assert same_at("small", *edited(tmp_path, key, old, new))


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("lrp/table2", "mnist: {rounds: 10}", "mnist: {rounds: 11}"),
        ("lrp/table2", "better: higher", "better: lower"),
        ("lrp/table2", "lrp: LRP,", "lrp: ours,"),
        ("lrp/table2", '    absent:\n      cifar100: "', '    absent:\n      cifar100: "other '),
        ("lrp/table6", "    note: >-\n      10 rounds", "    note: >-\n      ten rounds"),
        ("hyperfl/table1", "rates: [[0.005]]", "rates: [[0.006]]"),
        ("lrp/table1", "title: ", "title: X "),
        ("lrp/table1", "as: {cnn-small: cnn}", "as: {cnn-small: network}"),
    ],
)
def test_what_a_scale_computes_or_shows_does(tmp_path, key, old, new):
    old, file = edited(tmp_path, key, old, new)
    load_item(file)  # a text that is no item would differ for another reason
    assert not same_at("small", old, file)


@pytest.mark.parametrize(("scale", "same"), [("small", True), ("demo", True), ("paper", False)])
def test_other_scales_compute_the_same(tmp_path, scale, same):
    assert same_at(scale, *edited(tmp_path, "lrp/table6", "  paper:", "  paper:\n    set: {rounds: 300}")) == same


def test_a_name_for_a_value_that_no_run_has_says_nothing(tmp_path):
    assert same_at("small", *edited(tmp_path, "lrp/table1", "as: {cnn-small: cnn}", "as: {cnn-small: cnn, unmet: x}"))


def test_a_run_that_becomes_the_printed_one_is_another_line(tmp_path):
    """The lines of a small scale name what was reduced, which scale ``paper`` decides."""
    key = "lrp/table6"
    new = "  paper:\n    set: {rounds: 10}"
    old, file = edited(tmp_path, key, "  paper:", new)
    assert not same_at("small", old, file)


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
@pytest.mark.parametrize("key", [*KEPT, "lrp/figure8", "outpost/figure6"])
def test_what_collectors_are_handed_is_what_is_compared(key, scale, monkeypatch):
    item = load_items()[key]
    handed = []
    monkeypatch.setattr(collecting, "_collector", lambda *_: lambda source, *_: handed.append(source) or [])
    collecting.collect(item, scale)
    assert handed
    assert all(source == source_of(item, scale) for source in handed)


@pytest.mark.parametrize("text", [b"\xff", b"runs: [", b"paper: lrp", b"a: 1\na: 2"])
def test_what_is_no_item_is_never_the_same(tmp_path, text):
    _, file = edited(tmp_path, "lrp/table1", "number: ", "number: 1")
    assert not same_at("small", text, file)


@pytest.fixture
def checkout(tmp_path):
    """A git checkout whose item was committed, then edited in its words."""

    def git(*arguments):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    old, file = edited(tmp_path, "lrp/table1", "number: ", "number: 1")
    words = file.read_bytes()
    file.write_bytes(old)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "an item")
    file.write_bytes(words)
    git("commit", "-qam", "other words")
    return tmp_path, file.relative_to(tmp_path).as_posix(), sha256(old).hexdigest()


def record(rule="make_table", scale="small"):
    return {"rule": rule, "spec": {"paper": "lrp", "item": "table1", "scale": scale}}


def test_the_text_that_was_read_is_found_in_the_history(checkout):
    root, path, recorded = checkout
    assert only_words_changed(path, recorded, record(), root)
    assert not only_words_changed(path, "0" * 64, record(), root)
    assert not only_words_changed(path, recorded, record("judge_claims"), root)
    assert not only_words_changed("config/config.yaml", recorded, record(), root)


def test_outside_of_git_nothing_is_believed(tmp_path):
    old, file = edited(tmp_path, "lrp/table1", "number: ", "number: 1")
    path = file.relative_to(tmp_path).as_posix()
    assert not only_words_changed(path, sha256(old).hexdigest(), record(), tmp_path)
