"""The quick reader gives what ``ResultTable.read`` gives, of whatever a file holds, and refuses what that refuses."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.records.errors import UserError
from leaklab.report.numbers import reading
from leaklab.report.numbers.reading import read_table
from leaklab.report.numbers.results import COLUMNS, ResultRow, ResultTable

RESULTS = Path(__file__).parents[3] / "results/small"
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=6)
SCALAR = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | TEXT
KEYS = st.dictionaries(
    st.sampled_from(["model", "index", "image", "update", "alpha", "beta", "z", "by"]),
    SCALAR | st.lists(st.integers(0, 2), max_size=2),
    max_size=4,
)
NUMBER = st.none() | st.floats(allow_nan=False)
LISTS = st.lists(TEXT.map(str.strip).filter(lambda text: text and ";" not in text), max_size=2).map(tuple)
ROWS = st.builds(
    ResultRow, paper=TEXT, item=TEXT, row=KEYS, metric=st.sampled_from("ab"), value=NUMBER, std=NUMBER,
    n=st.none() | st.integers(0, 9), unit=TEXT, better=st.sampled_from(["higher", "lower", ""]),
    attacker=st.sampled_from(["paper", "blind", "knowing", ""]), variant=TEXT.map(lambda text: text or "as-described"),
    substitutes=LISTS, runs=LISTS, note=TEXT,
)  # fmt: skip


def outcome(read, path):
    """Return the rows with their types, or what is said of the file."""
    try:
        return repr(read(path).rows)
    except (UserError, ValueError) as error:
        return type(error), str(error)


def same(path):
    assert outcome(read_table, path) == outcome(ResultTable.read, path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*.csv")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_published_table_is_read_alike_and_none_is_left_to_the_other(path, monkeypatch):
    plain = ResultTable.read(path)
    monkeypatch.setattr(ResultTable, "read", lambda path: pytest.fail("left to the other"))
    found = read_table(path)
    assert found == plain
    assert repr(found) == repr(plain)


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(ROWS, max_size=6))
def test_whatever_is_written_is_read_alike(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    try:
        ResultTable(tuple(rows)).write(path)
    except (UserError, ValueError):
        return
    same(path)


LINE = dict.fromkeys(COLUMNS, "") | {"paper": "lrp", "item": "t", "metric": "m", "row": "{}", "variant": "as-described"}


def cell(text):
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize(
    "lines",
    [
        [{"row": '{"index": "0-2"}', "value": "1 - 3", "n": "4"}],
        [{"row": '{"index": "0-2"}', "value": "1 2"}],
        [{"row": '{"index": "0-999999999"}'}],
        [{"row": '{"z": 1, "a": 2}'}],
        [{"row": '{"image": [0, 1], "a": {"z": 1, "b": 2}}', "value": "1 2"}],
        [{"row": '{"alpha": [0.5, 1], "index": "3-4"}', "value": "nan -"}],
        [{"row": '{"alpha": [0.5], "index": "3-4"}'}],
        [{"row": '{"update": []}'}],
        [{"row": '{"index": "0-1", "update": [1, 2]}', "value": "1 2"}],
        [{"row": "[]"}],
        [{"row": "{"}],
        [{"row": '{"x": NaN}'}],
        [{"value": "-"}],
        [{"value": "1 2"}],
        [{"value": "x"}],
        [{"n": "2.7"}, {"n": "inf"}],
        [{"n": "nan"}],
        [{"better": "up"}],
        [{"attacker": "me"}],
        [{"variant": ""}],
        [{"runs": "[0] a; b;; c "}, {"runs": "[0]"}, {"runs": "[1] a"}],
        [{"runs": "[0]"}],
        [{"runs": "a; b"}, {"runs": "[x] y"}, {"runs": "[1]x"}],
        [{"runs": "[0] a"}, {"runs": "[0] b"}, {"runs": "[0]"}],
        [{"runs": "[0] a\nb"}, {"runs": "[0]"}],
        [{"runs": "[0] a"}, {"substitutes": "[0]"}],
        [{"runs": "[0]  "}, {"runs": "[0]"}],
        [{"runs": "[٣] a"}, {"runs": "[٣]"}],
    ],
)
def test_whatever_stands_in_a_file_is_taken_or_refused_alike(lines, tmp_path):
    text = "".join(",".join(cell((LINE | line)[name]) for name in COLUMNS) + "\n" for line in lines)
    (tmp_path / "t.csv").write_text(",".join(COLUMNS) + "\n" + text, encoding="utf-8")
    same(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n", b"a,b\n", b"\xff", b"\xef\xbb\xbf", ",".join(COLUMNS).encode(), ",".join(COLUMNS[:-1]).encode(),
        ",".join((*COLUMNS, "more")).encode() + b"\n", ",".join(COLUMNS[::-1]).encode() + b"\n\n",
        ",".join(COLUMNS).encode() + b"\n1,2\n", ",".join(COLUMNS).encode() + b'\n"',
    ],
)  # fmt: skip
def test_whatever_a_file_is(content, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    same(tmp_path / "t.csv")


def test_a_file_that_is_not_there_is_told_alike(tmp_path):
    same(tmp_path / "t.csv")
    (tmp_path / "u.csv").mkdir()
    with pytest.raises(IsADirectoryError):
        read_table(tmp_path / "u.csv")


def test_the_columns_that_differ_within_a_line_are_all_that_it_knows():
    assert {*reading.OWN} <= {*COLUMNS}
    assert len(reading.POINT_COLUMNS) == 6
