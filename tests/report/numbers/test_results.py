import json

import pytest

from leaklab.records.errors import UserError
from leaklab.report.numbers.results import COLUMNS, ResultRow, ResultTable, canonical, identity, matches, same

ROW = ResultRow(
    "lrp", "table1", {"model": "cnn", "perturbation": False, "eta1": 0.005}, "test_accuracy", 94.25, std=0.125,
    ci_low=94.0, ci_high=94.5, n=3, unit="%", better="higher", substitutes=("subset: 20 people", "small net"),
    runs=("a-1", "b-2"),
)  # fmt: skip


def test_a_table_survives_writing_and_reading(tmp_path):
    third = ResultRow("lrp", "table5", {}, "acc", 0.1 + 0.2, std=1e-300)
    table = ResultTable((ROW, third, ResultRow("lrp", "figure10", {"E": 5}, "rounds_to_target", None)))
    table.write(tmp_path / "t.csv")
    assert ResultTable.read(tmp_path / "t.csv") == table


def test_the_header_is_the_contract(tmp_path):
    ResultTable().write(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == ",".join(COLUMNS) + "\n"
    assert COLUMNS == (
        "paper", "item", "row", "metric", "value", "std", "ci_low", "ci_high", "n", "unit", "better", "attacker",
        "variant", "substitutes", "runs", "note",
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
