"""A paper is a folder: a fourth one needs no line of code, and one without its file is refused in one line."""

import shutil
from pathlib import Path

import pytest
import yaml

from leaklab import cli
from leaklab.items.items import load_items, load_papers
from leaklab.planning.plan import build_plan
from leaklab.records.errors import UserError

ROOT = Path(__file__).parents[2]
PAPER = {"title": "A paper of my own", "citation": "Somebody (MINE)", "order": 9}
ITEM = {
    "paper": "mine-too",
    "item": "table1",
    "title": "The networks",
    "number": 1,
    "kind": "table",
    "renderer": "architecture",
    "runs": {"nets": {"stage": "architecture", "dataset": "digits", "model": "dlg-lenet"}},
    "scales": {"demo": {}},
}


@pytest.fixture
def own(tmp_path):
    """The configuration with a fourth paper, in a checkout of their own; returns its folder."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    folder = tmp_path / "config/items/mine-too"
    folder.mkdir()
    (folder / "paper.yaml").write_text(yaml.safe_dump(PAPER))
    (folder / "table1.yaml").write_text(yaml.safe_dump(ITEM))
    return folder


def test_the_papers_that_are_here_come_in_their_order():
    papers = load_papers(ROOT / "config/items")
    assert [paper.order for paper in papers.values()] == sorted(paper.order for paper in papers.values())
    assert {item.paper for item in load_items(ROOT / "config/items").values()} == set(papers)


def test_a_fourth_paper_is_planned_and_listed_last(own, monkeypatch, capsys):
    items = load_items(own.parent)
    assert list(items)[-1] == "mine-too/table1"
    plan = build_plan(items)
    assert [item.key for item in plan.ready("demo")][-1] == "mine-too/table1"
    assert load_papers(own.parent)["mine-too"].title == PAPER["title"]
    monkeypatch.chdir(own.parents[2])
    load_items.cache_clear()
    load_papers.cache_clear()
    cli.items()
    assert "mine-too table1" in capsys.readouterr().out
    load_items.cache_clear()
    load_papers.cache_clear()


def test_a_first_place_moves_a_paper_to_the_front(own):
    (own / "paper.yaml").write_text(yaml.safe_dump({**PAPER, "order": 1}))
    assert list(load_papers(own.parent))[1] == "mine-too"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"mine-too/paper\.yaml is missing: .*title, citation and order"),
        ("title: T\norder: 2\n", r"mine-too/paper\.yaml: citation: Field required"),
        ("title: T\ncitation: C\norder: 0\n", r"mine-too/paper\.yaml: order: .*greater than or equal to 1"),
        ("title: T\ncitation: C\norder: 2\nyear: 9\n", r"mine-too/paper\.yaml: year: unknown key.*citation, order"),
        ("[]", r"mine-too/paper\.yaml: "),
        ("{", r"mine-too/paper\.yaml is not valid YAML"),
    ],
)
def test_a_missing_or_wrong_file_is_refused_in_one_line(own, text, said):
    (own / "paper.yaml").unlink() if text is None else (own / "paper.yaml").write_text(text)
    with pytest.raises(UserError, match=said) as refused:
        load_items(own.parent)
    assert "\n" not in str(refused.value)


def test_a_name_that_a_scale_needs_itself_is_refused(own):
    own.rename(own.parent / "report")
    with pytest.raises(UserError, match="no paper can be called 'report'"):
        load_papers(own.parent)


def test_an_item_of_another_paper_is_refused(own):
    (own / "table1.yaml").write_text(yaml.safe_dump({**ITEM, "paper": "Mine"}))
    with pytest.raises(UserError, match=r"table1\.yaml: paper: "):
        load_items(own.parent)
