"""Points in the plane: who belongs together, what is kept beside the figure, and what is refused."""

import numpy as np
import pytest

from leaklab.items.layouts import ScatterLayout
from leaklab.records.errors import UserError
from leaklab.report.figures import plane_figure, style
from leaklab.report.numbers.results import ResultRow, ResultTable

LAYOUT = ScatterLayout(x="x", y="y", groups=("group",), labels={"group": {"b": "second", "a": "first"}}, note="A note.")


def point(client, group, x, y, **keys):
    row = {"client": client, "group": group, **keys}
    return [ResultRow("p", "i", row, "x", x), ResultRow("p", "i", row, "y", y)]


def table(*points):
    return ResultTable(tuple(row for rows in points for row in rows))


POINTS = table(point(0, "a", 1.0, 2.0), point(1, "b", 3.0, 4.0), point(2, "a", 5.0, 6.0))


def test_points_are_gathered_by_group_in_the_order_of_the_labels():
    found = plane_figure.clouds(LAYOUT, POINTS)
    assert [cloud.group[0][1] for cloud in found] == ["b", "a"]
    assert np.array_equal(found[1].points, [[1, 2], [5, 6]])
    kept = plane_figure.cloud_arrays(LAYOUT, found)
    assert np.array_equal(kept["group b"], [[3, 4]])


def test_the_figure_shows_all_points_and_names_the_groups(tmp_path):
    figures = [plane_figure.draw_clouds(LAYOUT, plane_figure.clouds(LAYOUT, POINTS), "Title") for _ in range(2)]
    (axes,) = figures[0].axes
    (points,) = axes.collections
    assert points.get_offsets().tolist() == [[3, 4], [1, 2], [5, 6]]
    second, *first = map(tuple, points.get_facecolors())
    assert first[0] == first[1] != second
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == ["second", "first"]
    for name, figure in zip("ab", figures, strict=True):
        style.save(figure, tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_panels_have_their_own_points():
    layout = LAYOUT.model_copy(update={"panels": ("seed",)})
    found = plane_figure.clouds(layout, table(point(0, "a", 1.0, 2.0, seed=1), point(0, "a", 3.0, 4.0, seed=2)))
    assert len(plane_figure.draw_clouds(layout, found, "Title").axes) == 2


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(UserError, match="there is no number of x: run the item first"):
        plane_figure.clouds(LAYOUT, table())
    with pytest.raises(UserError, match="x has a point without y"):
        plane_figure.clouds(LAYOUT, ResultTable(POINTS.rows[:1]))
