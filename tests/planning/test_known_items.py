"""The list of items that is kept says what the items say, after every change of a file."""

from pathlib import Path

import pytest

from leaklab.items.items import load_items
from leaklab.planning import known_items as module
from leaklab.planning.known_items import known, known_items
from leaklab.planning.outputs import states
from leaklab.planning.plan import set_up
from leaklab.records.scales import SCALES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FILE", tmp_path / "listed.json")
    return tmp_path / "listed.json"


def test_it_says_of_all_items_what_their_states_are():
    items = load_items()
    found, said = known(items), states(set_up(items))
    assert list(found) == list(items)
    for key, item in items.items():
        own = found[key]
        assert (own.paper, own.item, own.kind, own.title) == (item.paper, item.item, item.kind, item.title)
        assert (own.planned, own.made, own.key) == (item.planned, item.made, item.key)
        for scale in SCALES:
            state, standing = said[key][scale], own.scales[scale]
            assert standing.done == (state.word == "done")
            assert standing.done or (standing.word, standing.reason) == (state.word, state.reason)


def test_a_second_process_reads_no_item(kept, monkeypatch):
    first = known_items()
    assert kept.is_file()
    monkeypatch.setattr("leaklab.items.items.load_items", lambda: pytest.fail("read again"))
    assert known_items() == first


@pytest.mark.parametrize("content", ["", "{}", "x \n[]"])
def test_a_damaged_file_is_made_anew(kept, content):
    kept.write_text(content)
    first = known_items()
    assert len(first) == len(load_items())
    assert known_items() == first


def test_any_change_of_a_file_is_seen(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper = Path("config/items/lrp")
    paper.mkdir(parents=True)
    for name in ("paper", "table1", "table2"):
        (paper / f"{name}.yaml").write_text((ROOT / "config/items/lrp" / f"{name}.yaml").read_text())
    load_items.cache_clear()
    assert list(known_items()) == ["lrp/table1", "lrp/table2"]
    (paper / "table2.yaml").unlink()
    load_items.cache_clear()
    assert list(known_items()) == ["lrp/table1"]
    text = (paper / "table1.yaml").read_text()
    (paper / "table1.yaml").write_text(text.replace("title: ", "title: New ", 1))
    load_items.cache_clear()
    assert known_items()["lrp/table1"].title.startswith("New ")
    load_items.cache_clear()


def test_results_are_looked_for_each_time(kept, tmp_path, monkeypatch):
    found = known_items()["lrp/table1"].scales["demo"]
    assert len(found.results) == 2
    monkeypatch.chdir(tmp_path)
    assert not found.done
    for name in found.results:
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    assert found.done
