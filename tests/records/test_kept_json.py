"""What is kept is what was worked out, under its key only; what is wrong with a file costs time alone."""

import pytest

from leaklab.records.kept_json import KeptResults, hash_of_sources, keep_json, key_of, read_kept_json

CONTENT = {"a": [1, 1.0, True, None, "ü\r\n\u2028"], "b": {"c": 1e-300}}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "kept.json"


def test_the_same_comes_back_with_its_types(file):
    keep_json(file, "k", CONTENT)
    assert repr(read_kept_json(file, "k")) == repr(CONTENT)


def test_of_another_key_nothing_is_known(file):
    keep_json(file, "k", CONTENT)
    assert read_kept_json(file, "j") is None
    assert read_kept_json(file.with_name("nowhere.json"), "k") is None


@pytest.mark.parametrize("place", [0, 40, 80, -1])
def test_a_changed_byte_counts_as_nothing(file, place):
    keep_json(file, "k", CONTENT)
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(bytes(content))
    assert read_kept_json(file, "k") is None


@pytest.mark.parametrize("content", [b"", b"k", b"\xff\xfe", b"k \n{}", b"[" * 100_000])
def test_a_damaged_file_counts_as_nothing_and_is_written_anew(file, content):
    file.write_bytes(content)
    assert read_kept_json(file, "k") is None
    keep_json(file, "k", 3)
    assert read_kept_json(file, "k") == 3


@pytest.mark.parametrize("content", [float("nan"), "\ud800", object()])
def test_what_is_no_plain_data_is_not_kept(file, content):
    keep_json(file, "k", content)
    assert not file.exists()


def test_a_place_that_cannot_be_written_is_no_mistake(tmp_path):
    (tmp_path / "a file").write_text("")
    keep_json(tmp_path / "a file" / "kept.json", "k", CONTENT)


def test_keys_differ_where_a_part_or_the_order_does():
    assert len({key_of(parts) for parts in (["a", "b"], ["b", "a"], ["ab"], ["a, b"], ["a', 'b"])}) == 5


def test_the_hash_sees_names_and_bytes(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    seen = {hash_of_sources(tmp_path)}
    (tmp_path / "a.py").write_text("x = 2\n")
    seen.add(hash_of_sources(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    seen.add(hash_of_sources(tmp_path))
    (tmp_path / "folder").mkdir()
    (tmp_path / "b.py").rename(tmp_path / "folder/b.py")
    seen.add(hash_of_sources(tmp_path))
    (tmp_path / "notes.txt").write_text("no code")
    assert len(seen) == 4
    assert hash_of_sources(tmp_path) in seen


def never():
    raise AssertionError("computed again")


def test_a_result_is_computed_once_for_its_arguments_and_key(file):
    first = KeptResults(file, "k")
    assert first.of([1, 2.0], lambda: [0.1, None]) == first.of([1, 2.0], never) == [0.1, None]
    first.save()
    assert KeptResults(file, "k").of([1, 2.0], never) == [0.1, None]
    for key, arguments in (("k", [1, 2]), ("k", [2.0, 1]), ("j", [1, 2.0])):
        with pytest.raises(AssertionError, match="computed again"):
            KeptResults(file, key).of(arguments, never)


def test_what_another_process_kept_meanwhile_stays(file):
    one, other = KeptResults(file, "k"), KeptResults(file, "k")
    one.of(1, lambda: None)
    other.of(2, lambda: 3)
    one.save()
    other.save()
    assert (KeptResults(file, "k").of(1, never), KeptResults(file, "k").of(2, never)) == (None, 3)
