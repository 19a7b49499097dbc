import json
from dataclasses import replace

import pytest

from leaklab.records.errors import UserError
from leaklab.report.numbers.results import COLUMNS, ResultRow, ResultTable, canonical, identity, matches, same

ROW = ResultRow(
    "lrp", "table1", {"model": "cnn", "perturbation": False, "eta1": 0.005}, "test_accuracy", 94.25, std=0.125,
    ci_low=94.0, ci_high=94.5, n=3, unit="%", better="higher", substitutes=("subset: 20 people", "small net"),
    runs=("a-1", "b-2"),
)  # fmt: skip


def test_a_table_survives_writing_and_reading(tmp_path):
    third = ResultRow("lrp", "table5", {}, "acc", 0.3000000007, std=1e-300)
    table = ResultTable((ROW, third, ResultRow("lrp", "figure10", {"E": 5}, "rounds_to_target", None)))
    table.write(tmp_path / "t.csv")
    assert ResultTable.read(tmp_path / "t.csv") == table


def test_numbers_keep_ten_digits(tmp_path):
    values = [1 / 3e9, 2e5 / 3, 1e-300 / 3, 123_456_789_012.0]
    ResultTable(tuple(replace(ROW, value=value) for value in values)).write(tmp_path / "t.csv")
    read = [row.value for row in ResultTable.read(tmp_path / "t.csv").rows]
    assert read == pytest.approx(values, rel=1e-9, abs=0)
    assert ",3.333333333e-10," in (tmp_path / "t.csv").read_text()


def test_the_header_is_the_contract(tmp_path):
    ResultTable().write(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == ",".join(COLUMNS) + "\n"
    assert COLUMNS == (
        "paper", "item", "row", "metric", "value", "std", "ci_low", "ci_high", "n", "clusters", "unit", "better",
        "attacker", "variant", "substitutes", "runs", "note",
    )  # fmt: skip


def test_row_json_is_canonical():
    assert canonical({"b": 1, "a": True}) == '{"a": true, "b": 1}'


def test_true_is_not_one_and_one_is_one_point_zero():
    assert same(1, 1.0)
    assert not same(True, 1)
    assert identity({"E": 1}) == identity({"E": 1.0})
    assert identity({"E": True}) != identity({"E": 1})
    assert not matches({"perturbation": 1}, {"perturbation": True})


def test_draws_are_sorted_by_seed():
    rows = [ResultRow("p", "i", {}, "m", 1.0, variant=f"partition-seed={s}") for s in (10, 2, 0)]
    assert ResultTable(tuple(rows)).draws() == ("partition-seed=0", "partition-seed=2", "partition-seed=10")


def damaged(cells):
    good = dict.fromkeys(COLUMNS, "") | {"row": "{}", "value": "1", "variant": "as-described"}
    values = (good | cells)[COLUMNS[0]], *[(good | cells)[name] for name in COLUMNS[1:]]
    return ",".join(COLUMNS) + "\n" + ",".join('"' + value.replace('"', '""') + '"' for value in values) + "\n"


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        ({"row": "[1]"}, "row is not a JSON object"),
        ({"row": "{"}, "row is not a JSON object"),
        ({"value": "many"}, "many"),
        ({"better": "up"}, "better"),
        ({"attacker": "strong"}, "attacker"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, cells, named):
    (tmp_path / "t.csv").write_text(damaged(cells))
    with pytest.raises(UserError, match=f"line 2.*{named}") as error:
        ResultTable.read(tmp_path / "t.csv")
    assert "\n" not in str(error.value)


def test_missing_columns_and_files_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("paper,item\n")
    with pytest.raises(UserError, match="no column row, metric"):
        ResultTable.read(tmp_path / "t.csv")
    with pytest.raises(UserError, match="is missing"):
        ResultTable.read(tmp_path / "absent.csv")


def test_a_line_with_too_few_cells_is_named(tmp_path):
    (tmp_path / "t.csv").write_text(",".join(COLUMNS) + "\nlrp,table1\n")
    with pytest.raises(UserError, match="line 2"):
        ResultTable.read(tmp_path / "t.csv")


def test_printed_numbers_are_rows_too(tmp_path):
    row = json.dumps({"model": "cnn"}).replace('"', '""')
    (tmp_path / "t.csv").write_text(
        f'paper,item,row,metric,value,std,unit,better,note\nlrp,table1,"{row}",acc,94.2,0.1,%,higher,doubt\n'
        f'lrp,table1,"{row}",psnr,,,dB,lower,lost\n'
    )
    first, lost = ResultTable.read_printed(tmp_path / "t.csv").rows
    assert (first.value, first.std, first.row, first.attacker) == (94.2, 0.1, {"model": "cnn"}, "")
    assert lost.value is None


def test_a_file_from_before_there_were_notes_is_read(tmp_path):
    table = ResultTable((ResultRow("lrp", "table1", {"a": 1}, "acc", 1.0),))
    table.write(tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    (tmp_path / "old.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    assert ResultTable.read(tmp_path / "old.csv") == table


class TestCompactFiles:
    """What many rows share is written once, and the rows come back as they were."""

    CURVE = tuple(
        ResultRow("lrp", "figure5", {"m": m, "index": i}, "loss", None if (m, i) == ("b", 3) else i / 8, std=std, n=3)
        for m, std in (("a", 0.5), ("b", None)) for i in range(5)
    )  # fmt: skip

    def lines(self, tmp_path, *rows):
        table = ResultTable(rows)
        table.write(tmp_path / "t.csv")
        assert ResultTable.read(tmp_path / "t.csv") == table
        return (tmp_path / "t.csv").read_text().splitlines()[1:]

    def test_a_list_is_written_out_once(self, tmp_path):
        other = replace(ROW, runs=("c-3",), row={"model": "mlp"})
        lines = self.lines(tmp_path, ROW, replace(ROW, metric="loss"), other, ROW)
        assert [line.count("subset: 20 people; small net") for line in lines] == [1, 0, 0, 0]
        ends = ["[0] a-1; b-2,", "[0],", "[1] c-3,", "[0],"]
        assert all(line.endswith(end) for line, end in zip(lines, ends, strict=True))

    def test_points_that_follow_each_other_are_one_line(self, tmp_path):
        first, second = self.lines(tmp_path, *self.CURVE)
        assert '""index"": ""0-4""' in first
        assert ",0.5,,,3," in first
        assert second.count(" - ") == 1

    def test_coordinates_of_points_are_a_list_in_their_line(self, tmp_path):
        places = [(0.25, -1.0), (0.25, 1.0), (1.0, -1.0)]
        points = [replace(ROW, row={"m": "a", "index": i, "alpha": a, "beta": b}, value=float(i))
                  for i, (a, b) in enumerate(places)]  # fmt: skip
        (line,) = self.lines(tmp_path, *points)
        assert '""alpha"": [0.25, 0.25, 1.0], ""beta"": [-1.0, 1.0, -1.0], ""index"": ""0-2""' in line
        path = tmp_path / "t.csv"
        path.write_text(path.read_text().replace("[0.25, 0.25, 1.0]", "[0.25, 1.0]"))
        with pytest.raises(UserError, match="line 2: alpha, beta has not 3 numbers"):
            ResultTable.read(path)

    def test_what_differs_or_does_not_follow_is_apart(self, tmp_path):
        points = self.CURVE[:5]
        assert len(self.lines(tmp_path, *points[:2], *points[3:])) == 2
        assert len(self.lines(tmp_path, *points[:2], replace(points[2], note="diverged: all"), *points[3:])) == 3
        assert len(self.lines(tmp_path, *reversed(points))) == 5
        assert len(self.lines(tmp_path, points[0], replace(points[0], row={"m": "a"}))) == 2

    def test_images_that_follow_each_other_are_one_line(self, tmp_path):
        images = [replace(ROW, row={"attack": "dlg", "draw": d, "image": i}, value=v, std=None)
                  for d in (0, 1) for i, v in ((8773, 0.5), (826, None), (4223, 0.25))]  # fmt: skip
        first, second = self.lines(tmp_path, *images)
        assert '""draw"": 0, ""image"": [8773, 826, 4223]' in first
        assert ",0.5 - 0.25,,94,94.5," in first
        assert '""draw"": 1' in second
        alone, other = self.lines(tmp_path, images[0], replace(images[1], metric="psnr"))
        assert '""image"": 8773' in alone
        assert '""image"": 826' in other
        path = tmp_path / "t.csv"
        self.lines(tmp_path, *images)
        path.write_text(path.read_text().replace("[8773, 826, 4223]", "[8773, 826]"))
        with pytest.raises(UserError, match="line 2: value has 3 numbers for 2 points"):
            ResultTable.read(path)

    def test_so_are_the_updates_of_one_setting_beside_their_mean(self, tmp_path):
        mean = replace(ROW, row={"attack": "dlg"}, std=None)
        updates = [
            replace(mean, row={"attack": "dlg", "update": u}, value=v) for u, v in ((1, 0.5), (2, None), (5, 0.25))
        ]
        _, folded, alone = self.lines(tmp_path, mean, *updates, replace(updates[1], metric="psnr"))
        assert '""update"": [1, 2, 5]' in folded
        assert ",0.5 - 0.25,,94,94.5," in folded
        assert '""update"": 2' in alone

    def test_text_that_looks_like_it_is_left_alone(self, tmp_path):
        self.lines(tmp_path, replace(ROW, row={"index": "0-4", "span": "1-2"}.copy() | {"index": 1}, runs=("[x] y",)))

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [("[0] a-1; b-2", "[0]", r"line 2: runs \[0\] is written out nowhere"), ("0.25 0.5", "0.25", "value has")],
    )
    def test_a_damaged_file_is_named_with_its_line(self, tmp_path, old, new, named):
        points = [replace(ROW, row={"index": i}, value=v) for i, v in enumerate((0.125, 0.25, 0.5))]
        self.lines(tmp_path, *points)
        path = tmp_path / "t.csv"
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(UserError, match=f"line 2: .*{named.removeprefix('line 2: ')}.*delete what is there"):
            ResultTable.read(path)
