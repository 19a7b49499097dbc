"""Models that are kept are those that their files give, whatever happens to the files."""

import pytest

from leaklab.items.items import Item, item_file, load_item, load_items
from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.kept_models import read_models
from leaklab.records.record import Record


class Point(Record):
    x: float
    y: tuple[int, ...] = (1, 2)


def read(path):
    return parse(Point, read_yaml(path), path)


def never(path):
    raise AssertionError(f"{path} was read again")


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / f"{name}.yaml" for name in "abc"]
    for place, path in enumerate(found):
        path.write_text(f"x: {place}\n")
    return found


def test_nothing_is_read_twice(paths, tmp_path):
    first = read_models(paths, Point, read, tmp_path / "kept.json")
    again = read_models(paths[::-1], Point, never, tmp_path / "kept.json")
    assert again == first[::-1] == [Point(x=2), Point(x=1), Point(x=0)]
    assert again[0].model_fields_set == {"x"}


def test_a_file_is_read_again_after_a_change_of_its_bytes_alone(paths, tmp_path):
    read_models(paths, Point, read, tmp_path / "kept.json")
    asked = []
    paths[1].write_text("x: 7\ny: []\n")
    paths[2].touch()
    again = read_models(paths, Point, lambda path: asked.append(path) or read(path), tmp_path / "kept.json")
    assert asked == [paths[1]]
    assert again[1] == Point(x=7, y=())
    assert read_models(paths, Point, never, tmp_path / "kept.json") == again


def test_a_file_that_is_wrong_or_gone_is_what_read_says_of_it(paths, tmp_path):
    read_models(paths, Point, read, tmp_path / "kept.json")
    paths[0].write_text("z: 1\n")
    with pytest.raises(UserError, match="unknown key"):
        read_models(paths, Point, read, tmp_path / "kept.json")
    paths[0].unlink()
    with pytest.raises(UserError, match="is missing"):
        read_models(paths, Point, read, tmp_path / "kept.json")


def test_of_a_file_that_is_written_while_it_is_read_nothing_is_kept(paths, tmp_path):
    def read_and_write(path):
        found = read(path)
        path.write_text("x: 9\n")
        return found

    assert read_models(paths[:1], Point, read_and_write, tmp_path / "kept.json") == [Point(x=0)]
    assert read_models(paths[:1], Point, read, tmp_path / "kept.json") == [Point(x=9)]


def test_of_other_code_nothing_is_known(paths, tmp_path, monkeypatch):
    read_models(paths, Point, read, tmp_path / "kept.json")
    monkeypatch.setattr("leaklab.records.kept_models.hash_of_package", lambda: "another")
    with pytest.raises(AssertionError, match="read again"):
        read_models(paths, Point, never, tmp_path / "kept.json")


def test_all_items_come_back_as_they_are_read(tmp_path):
    paths = [item_file(item) for item in load_items().values()]
    first = read_models(paths, Item, load_item, tmp_path / "kept.json")
    again = read_models(paths, Item, never, tmp_path / "kept.json")
    for path, one, other in zip(paths, first, again, strict=True):
        plain = load_item(path)
        assert plain == one == other
        assert repr(plain) == repr(one) == repr(other)
        assert plain.model_dump(exclude_unset=True) == other.model_dump(exclude_unset=True)
