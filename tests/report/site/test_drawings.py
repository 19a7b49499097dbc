"""Drawings on pages: the same numbers drawn by the same code are drawn once."""

from dataclasses import replace
from pathlib import Path

import pytest

from leaklab.items.items import load_items
from leaklab.report.figures import partition_figure
from leaklab.report.judge.comparison import Comparison, read_comparison
from leaklab.report.site.drawings import ranges


@pytest.fixture
def drawn_before() -> tuple[Comparison, ...]:
    every = read_comparison(Path("results/small/comparison.csv"))
    return tuple(row for row in every if (row.paper, row.item) == ("lrp", "table1"))


def test_the_same_numbers_are_drawn_once_and_others_anew(
    drawn_before: tuple[Comparison, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = load_items()["lrp/table1"]
    assert any(row.draws_min is not None for row in drawn_before)
    monkeypatch.chdir(tmp_path)
    (first,) = ranges(tmp_path / "a", table, drawn_before)
    monkeypatch.setattr(partition_figure, "draw_ranges", None)  # whoever draws again fails
    (again,) = ranges(tmp_path / "b", table, drawn_before)
    assert again.path.read_bytes() == first.path.read_bytes()
    other = tuple(replace(row, printed=None if row.printed is None else row.printed + 1) for row in drawn_before)
    with pytest.raises(TypeError):
        ranges(tmp_path / "c", table, other)


def test_without_draws_there_is_nothing_to_draw(tmp_path: Path) -> None:
    assert ranges(tmp_path, load_items()["lrp/table1"], ()) == []
