import numpy as np
import pytest

from leaklab.items.layouts import CurvesLayout, PathsLayout
from leaklab.records.errors import UserError
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.numbers.series import curves, paths, points


def row(metric, value, std=None, unit="", note="", variant="as-described", **keys):
    return ResultRow("lrp", "figure5", keys, metric, value, std=std, unit=unit, note=note, variant=variant)


def table(*rows):
    return ResultTable(rows)


def a_run(method, losses, rounds=(1, 5, 9)):
    pairs = zip(rounds, losses, strict=True)
    return [
        part
        for index, (number, loss) in enumerate(pairs)
        for part in (
            row("round", float(number), method=method, index=index),
            row("loss", loss, std=0.1, unit="nats", method=method, index=index),
        )
    ]


BY_METHOD = CurvesLayout(x="round", y="loss", lines=("method",), labels={"method": {"b": "B", "a": "A"}})


class TestCurves:
    def test_x_and_y_meet_at_the_same_index_whatever_the_order_of_the_lines(self):
        rows = a_run("a", [3.0, 2.0, 1.0])
        (curve,) = curves(BY_METHOD, table(*reversed(rows)))
        assert (curve.x.tolist(), curve.y.tolist(), curve.std.tolist()) == ([1, 5, 9], [3, 2, 1], [0.1] * 3)
        assert (curve.metric, curve.unit, curve.panel) == ("loss", "nats", ())

    def test_lines_stand_in_the_order_of_their_labels(self):
        found = curves(BY_METHOD, table(*a_run("a", [3.0, 2.0, 1.0]), *a_run("b", [4.0, 3.0, 2.0])))
        assert [curve.line for curve in found] == [((False, "b"),), ((False, "a"),)]

    def test_one_x_serves_all_lines_that_have_its_keys(self):
        steps = [row("step", float(10 * index), index=index, K=5) for index in range(2)]
        gaps = [
            row(name, 1.0 + index, index=index, K=5, E=e)
            for name in ("gap", "bound")
            for index in range(2)
            for e in (1, 2)
        ]
        layout = CurvesLayout(x="step", y=("gap", "bound"), lines=("metric",), panels=("E",))
        found = curves(layout, table(*steps, *gaps))
        assert [(c.panel[0][1], c.line[0][1]) for c in found] == [(1, "gap"), (1, "bound"), (2, "gap"), (2, "bound")]
        assert all(curve.x.tolist() == [0, 10] for curve in found)

    def test_a_row_key_can_be_x_and_a_number_can_be_missing(self):
        rows = [
            row("rounds", None if e == 1 else 100.0 / e, note="capped: 3 of 3" if e == 1 else "", E=e)
            for e in (10, 1, 2)
        ]
        (curve,) = curves(CurvesLayout(x="E", y="rounds"), table(*rows, row("capped", 0.0, E=1)))
        assert curve.x.tolist() == [1, 2, 10]
        assert np.isnan(curve.y[0])
        assert curve.missing == ("capped", "", "")

    def test_the_number_beside_a_curve_and_other_draws_are_not_part_of_it(self):
        beside = row("loss", 7.0, method="a"), row("loss", 7.0, method="a", index=0, variant="partition-seed=1")
        (curve,) = curves(BY_METHOD, table(*a_run("a", [3.0, 2.0, 1.0]), *beside))
        assert curve.y.tolist() == [3, 2, 1]

    def test_where_chooses(self):
        found = curves(
            BY_METHOD.model_copy(update={"where": {"method": "b"}}),
            table(*a_run("a", [3.0, 2.0, 1.0]), *a_run("b", [4.0, 3.0, 2.0])),
        )
        assert [curve.y.tolist() for curve in found] == [[4, 3, 2]]

    @pytest.mark.parametrize(
        ("layout", "rows", "said"),
        [
            ({"y": ("loss", "acc")}, a_run("a", [1.0, 1.0, 1.0]), "several metrics"),
            ({"lines": ()}, a_run("a", [1.0, 1.0, 1.0]) + a_run("b", [1.0, 1.0, 1.0]), "two numbers at one x"),
            ({"y": "margin"}, a_run("a", [1.0, 1.0, 1.0]), "no number of margin has a 'round'"),
            ({"x": "method"}, [row("loss", 1.0, method="a")], "x has to be a number"),
            ({"lines": ("model",)}, a_run("a", [1.0, 1.0, 1.0]), "no key model"),
            ({}, [*a_run("a", [1.0, 1.0, 1.0]), row("loss", 1.0, method="a", index=7)], "no round belongs to loss"),
        ],
    )
    def test_what_cannot_be_drawn_says_why(self, layout, rows, said):
        with pytest.raises(UserError, match=said):
            curves(BY_METHOD.model_copy(update=layout), table(*rows))


class TestPaths:
    LAYOUT = PathsLayout(x="x", y="y", paths=("client",), panels=("rates",), points={"optimum": ("ox", "oy")})

    @staticmethod
    def walk(client, *steps, rates="equal"):
        return [
            row(metric, value, client=client, rates=rates, index=index)
            for index, step in enumerate(steps)
            for metric, value in zip("xy", step, strict=True)
        ]

    def test_a_path_follows_its_index(self):
        walked = self.walk(1, (0.0, 1.0), (2.0, 3.0)), self.walk(2, (5.0, 6.0), (7.0, 8.0), rates="adapted")
        found = paths(self.LAYOUT, table(*reversed([step for walk in walked for step in walk])))
        assert {(p.panel[0][1], p.path[0][1]): (p.x.tolist(), p.y.tolist()) for p in found} == {
            ("equal", 1): ([0, 2], [1, 3]),
            ("adapted", 2): ([5, 7], [6, 8]),
        }

    def test_points_belong_to_a_panel_or_path_where_they_have_its_key(self):
        walked = self.walk(1, (0.0, 1.0), (2.0, 3.0))
        marked = [
            row("ox", 1.0),
            row("oy", 2.0),
            row("ox", 3.0, client=1),
            row("oy", 4.0, client=1),
            row("ox", 9.0, client=2),
        ]
        found = points(self.LAYOUT, table(*walked, *marked))
        assert [(p.label, p.panel, p.path, p.x, p.y) for p in found] == [
            ("optimum", None, None, 1.0, 2.0),
            ("optimum", None, ((False, 1),), 3.0, 4.0),
        ]

    def test_what_cannot_be_drawn_says_why(self):
        with pytest.raises(UserError, match="no points with x and y"):
            paths(self.LAYOUT, table())
        twice = self.walk(1, (0.0, 1.0)) + self.walk(1, (0.0, 1.0))
        with pytest.raises(UserError, match="two points at"):
            paths(self.LAYOUT, table(*twice))
        with pytest.raises(UserError, match="no x belongs to y"):
            paths(self.LAYOUT, table(row("y", 1.0, client=1, rates="a", index=0)))
