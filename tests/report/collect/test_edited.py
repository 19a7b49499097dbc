"""An edit of an item costs only what it touches: words, and what other scales compute, leave published tables alone."""

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from leaklab.items.items import load_item, load_items
from leaklab.report.collect import item as collecting
from leaklab.report.collect.edited import keep_texts, only_words_changed, same_at, source_of

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


def write_record(root, path, recorded, **more):
    """Write the record of a table that read an item."""
    published = json.loads((ITEMS.parents[1] / "results/small/lrp/table1.run.json").read_text())
    full = {**published, **record(**more), "inputs": {path: recorded}, "outputs": {}}
    (root / "results/small/lrp").mkdir(parents=True)
    (root / "results/small/lrp/table1.run.json").write_text(json.dumps(full))


def test_the_text_that_was_read_is_kept_of_the_history_and_read_without_it(checkout, tmp_path):
    root, path, recorded = checkout
    write_record(root, path, recorded)
    assert not only_words_changed(path, recorded, record(), root)
    (line,) = keep_texts("small", root)
    assert path in line
    assert not list(keep_texts("small", root))
    shutil.rmtree(root / ".git")
    assert only_words_changed(path, recorded, record(), root)
    assert not only_words_changed(path, "0" * 64, record(), root)
    assert not only_words_changed(path, recorded, record("judge_claims"), root)
    assert not only_words_changed("config/config.yaml", recorded, record(), root)
    (kept,) = root.glob("results/small/lrp/table1.*.yaml")
    kept.write_bytes(kept.read_bytes() + b"#")
    assert not only_words_changed(path, recorded, record(), root)  # the text is believed by its hash


def test_a_text_that_nothing_was_read_from_is_dropped(checkout):
    root, path, recorded = checkout
    write_record(root, path, recorded)
    list(keep_texts("small", root))
    (root / "results/small/lrp/table1.run.json").unlink()
    assert list(keep_texts("paper", root)) == []
    (line,) = keep_texts("small", root)
    assert "removed" in line
    assert not list(root.glob("results/small/lrp/*"))


@pytest.mark.parametrize("history", [True, False])
def test_a_text_that_asks_for_something_else_is_not_kept(checkout, history):
    root, path, recorded = checkout
    if not history:
        shutil.rmtree(root / ".git")
    (root / path).write_text((root / path).read_text().replace("title: ", "title: X "))
    write_record(root, path, recorded)
    assert not list(keep_texts("small", root))
    assert not only_words_changed(path, recorded, record(), root)


def test_the_published_tables_need_no_history():
    """An archive of the files, or a shallow clone, is audited like the checkout."""
    root = ITEMS.parents[1]
    texts = list(root.glob("results/small/*/*.????????????.yaml"))
    for text in texts:
        assert sha256(text.read_bytes()).hexdigest().startswith(text.suffixes[-2][1:])
    behind = {
        (path, recorded)
        for file in root.glob("results/small/*/*.run.json")
        for path, recorded in json.loads(file.read_text())["inputs"].items()
        if path.startswith("config/items/") and sha256((root / path).read_bytes()).hexdigest() != recorded
    }
    assert {recorded[:12] for _, recorded in behind} == {text.suffixes[-2][1:] for text in texts}
