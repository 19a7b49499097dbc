"""Artefacts: whole or not at all, and refused in one line when they are not what they should be."""

import hashlib

import numpy as np
import pandas as pd
import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.records.files import (
    atomic,
    read_json,
    read_table,
    read_tensors,
    sha256,
    write_json,
    write_table,
    write_tensors,
    write_text,
)

READERS = {"a.json": read_json, "a.safetensors": read_tensors, "a.csv": read_table, "a.parquet": read_table}
TENSORS = {
    "weights/conv1.weight": torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
    "labels": torch.tensor([1, 2], dtype=torch.int64),
    "images": torch.tensor([0, 255], dtype=torch.uint8),
    "scale": torch.tensor(float("inf"), dtype=torch.float64),
}


@pytest.fixture
def table():
    values = np.random.Generator(np.random.PCG64(0)).normal(size=200) * 10.0 ** np.arange(-100, 100)
    return pd.DataFrame({"trial": range(200), "value": values, "chosen": [True, False] * 100, "metric": "mse"})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def interrupt(path):
    with atomic(path) as temporary:
        temporary.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt


class Unwritable:
    """Something that JSON cannot hold."""


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    with atomic(path) as temporary:
        temporary.write_text("whole", encoding="utf-8")
        assert not path.exists()
        assert temporary.parent == path.parent
        assert temporary.suffix == path.suffix
    assert path.read_text(encoding="utf-8") == "whole"
    assert names(path.parent) == ["a.txt"]


def test_an_exception_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path / "a.txt")
    assert names(tmp_path) == []


def test_an_exception_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(path)
    assert path.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_new_file_replaces_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old and longer")
    write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.json", lambda path: write_json(path, {"a": Unwritable()})),
        ("a.safetensors", lambda path: write_tensors(path, {"a": TENSORS["labels"], "b": TENSORS["labels"]})),
        ("a.parquet", lambda path: write_table(path, pd.DataFrame({"a": [Unwritable()]}))),
    ],
)
def test_a_value_that_cannot_be_written_leaves_the_old_file(tmp_path, name, write):
    path = tmp_path / name
    path.write_bytes(b"old")
    with pytest.raises(Exception, match=r"."):
        write(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_is_named_in_one_line(tmp_path, name):
    with pytest.raises(UserError) as caught:
        READERS[name](tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name} is missing: run snakemake for it first"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b""),
        ("a.json", b'{"a": 1'),
        ("a.json", b"\xff\xfe"),
        ("a.safetensors", b""),
        ("a.safetensors", b"not tensors at all"),
        ("a.csv", b""),
        ("a.csv", b"a,b\n1,2\n1,2,3\n"),
        ("a.csv", b"\xff\xfe"),
        ("a.parquet", b""),
        ("a.parquet", b"PAR1 but not really"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        READERS[name](path)
    message = str(caught.value)
    assert message.startswith(f"{path} is damaged (")
    assert message.endswith("): delete it and run snakemake again")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["a.safetensors", "a.parquet"])
def test_a_file_that_was_cut_short_is_noticed(tmp_path, table, name):
    path = tmp_path / name
    if name == "a.parquet":
        write_table(path, table)
    else:
        write_tensors(path, TENSORS)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match="is damaged"):
        READERS[name](path)


def test_json_comes_back(tmp_path):
    value = {"b": [1, 2.5, None, True], "a": {"é": "ü"}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value


def test_json_has_one_form(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": 2})
    write_json(tmp_path / "b.json", {"a": 2, "b": 1})
    assert sha256(tmp_path / "a.json") == sha256(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n "a": 2,\n "b": 1\n}\n'


def test_tensors_come_back_with_shape_type_and_value(tmp_path):
    write_tensors(tmp_path / "a.safetensors", TENSORS, {"note": "x"})
    found = read_tensors(tmp_path / "a.safetensors")
    assert found.keys() == TENSORS.keys()
    for name, expected in TENSORS.items():
        assert found[name].dtype == expected.dtype
        assert torch.equal(found[name], expected)


def test_tensors_with_a_history_are_written_without_it(tmp_path):
    weight = torch.ones(3, requires_grad=True) * 2
    write_tensors(tmp_path / "a.safetensors", {"w": weight})
    assert not read_tensors(tmp_path / "a.safetensors")["w"].requires_grad


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_tables_come_back_to_the_last_bit(tmp_path, table, name):
    write_table(tmp_path / name, table)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), table, check_exact=True)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_diverged_trials_stay_infinite_or_missing(tmp_path, name):
    written = pd.DataFrame({"loss": [float("inf"), float("nan"), 1.0]})
    write_table(tmp_path / name, written)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), written)


def test_sha256_is_that_of_the_bytes(tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(content)
    assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()
