"""Prepared data, tables and deals of others: read, or refused in one line."""

import json
import struct
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from leaklab.data.dataset import Dataset
from leaklab.data.deal import read_clients
from leaklab.data.text.corpus import Corpus
from leaklab.records.errors import UserError
from leaklab.records.files import read_table
from leaklab.report.numbers import compact
from leaklab.report.numbers.compact import POINT_COLUMNS, SHARED_COLUMNS, unpacked
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.site.publication import Published
from leaklab.theory.base import Number, read_numbers, write_numbers

UNTRUSTED = settings.get_profile("untrusted")
ROOT = Path(__file__).parents[2]
CARD = {"name": "d", "num_classes": 3, "shape": [1, 2, 2], "mean": [0.1], "std": [0.2], "substitute": None}
CORPUS = {
    "name": "c", "num_classes": 2, "texts": ["a b", "c"], "labels": [0, 1], "substitute": None,
    "vocabulary": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"],
}  # fmt: skip
IMAGES, LABELS = torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 2, 1])
TENSORS = save({f"{part}_{kind}": value for part in ("train", "test")
                for kind, value in (("images", IMAGES.clone()), ("labels", LABELS.clone()))})  # fmt: skip
CELLS = st.sampled_from([
    "", "nan", "inf", "1e999", "-", "[9]", "{}", "[]", '"{""index"": ""0-9""}"', "1 2 3", '"' + "[" * 4000 + '"',
    '"{""image"": [1, null]}"', "\ud800",
])  # fmt: skip


def with_other_cell(content, draw):
    """Return a CSV table with one cell changed."""
    lines = content.decode().split("\n")
    number = draw(st.integers(0, len(lines) - 1))
    cells = lines[number].split(",")
    cells[draw(st.integers(0, len(cells) - 1))] = draw(CELLS)
    return "\n".join([*lines[:number], ",".join(cells), *lines[number + 1 :]]).encode(errors="surrogatepass")


def with_other_header(content, draw, reading):
    """Return a safetensors file whose header is altered, or says that it has another length."""
    length = struct.unpack("<Q", content[:8])[0]
    header = reading.spoilt_json(json.loads(content[8 : 8 + length]), draw)
    said = draw(st.sampled_from([len(header)] * 4 + [0, 2**63, 2**40, len(header) + 9]))
    return struct.pack("<Q", said) + header + content[8 + length :]


@settings(UNTRUSTED, max_examples=200)
@given(data=st.data())
def test_card_of_a_data_set(tmp_path_factory, reading, data):
    file = tmp_path_factory.getbasetemp() / "d.safetensors"
    file.write_bytes(TENSORS)
    file.with_suffix(".json").write_bytes(reading.spoilt_json(CARD, data.draw))
    reading(Dataset.load, file)


@settings(UNTRUSTED, max_examples=200)
@given(data=st.data())
def test_tensors_of_a_data_set(tmp_path_factory, reading, data):
    file = tmp_path_factory.getbasetemp() / "d.safetensors"
    file.with_suffix(".json").write_text(json.dumps(CARD))
    whole = data.draw(st.booleans())
    file.write_bytes(reading.damaged(TENSORS, data.draw) if whole else with_other_header(TENSORS, data.draw, reading))
    found = reading(Dataset.load, file)
    if isinstance(found, Dataset):
        assert found.train_images.shape == IMAGES.shape


@pytest.mark.parametrize(
    ("content", "read"),
    [(CORPUS, Corpus.load), ({"clients": [[1, 2], [3]], "tests": [[1]]}, lambda path: read_clients(path, 10))],
    ids=["texts", "deal"],
)
@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_prepared_json(tmp_path_factory, reading, content, read, data):
    file = tmp_path_factory.getbasetemp() / "prepared.json"
    file.write_bytes(reading.spoilt_json(content, data.draw))
    reading(read, file)


TABLE = pd.DataFrame({"a": [1, 2, 3] * 10, "b": list("xyz") * 10, "c": [1.5, float("nan"), 2] * 10})


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@settings(UNTRUSTED, max_examples=250)
@given(data=st.data())
def test_table_of_a_run(tmp_path_factory, reading, kind, data):
    content = TABLE.to_parquet(index=False) if kind == "parquet" else TABLE.to_csv(index=False).encode()
    file = tmp_path_factory.getbasetemp() / f"table.{kind}"
    file.write_bytes(reading.damaged(content, data.draw))
    reading(read_table, file)


RESULTS = ["table1", "table5", "figure5", "figure2", "table7"]


@settings(UNTRUSTED, max_examples=150)
@given(name=st.sampled_from(RESULTS), data=st.data())
def test_result_table(tmp_path_factory, reading, name, data):
    content = b"\n".join((ROOT / f"results/small/lrp/{name}.csv").read_bytes().split(b"\n")[:20])
    file = tmp_path_factory.getbasetemp() / "results.csv"
    file.write_bytes(data.draw(st.sampled_from([reading.damaged, with_other_cell]))(content, data.draw))
    reading(ResultTable.read, file)


@settings(UNTRUSTED, max_examples=150)
@given(data=st.data())
def test_numbers_of_a_check(tmp_path_factory, reading, data):
    file = tmp_path_factory.getbasetemp() / "numbers.csv"
    one, two = Number(metric="m", value=1.0, row={"a": 1}), Number("k", 2.0, {"a": 2}, index=3, std=0.1, n=4)
    if not hasattr(test_numbers_of_a_check, "content"):
        write_numbers(file, [one, two])
        test_numbers_of_a_check.content = file.read_bytes()
    content = test_numbers_of_a_check.content
    file.write_bytes(data.draw(st.sampled_from([reading.damaged, with_other_cell]))(content, data.draw))
    reading(read_numbers, file)


@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_published_costs_and_cards(tmp_path_factory, reading, data):
    folder = tmp_path_factory.getbasetemp()
    costs = b"\n".join((ROOT / "results/small/costs.csv").read_bytes().split(b"\n")[:9])
    cards = {"cards": [{"metric": "psnr", "facts": {"domain": "[0, 1]"}}] * 2, "items": {"lrp/table1": [0, 1]}}
    spoilt = data.draw(st.booleans())
    (folder / "costs.csv").write_bytes(reading.damaged(costs, data.draw) if spoilt else costs)
    (folder / "cards.json").write_bytes(json.dumps(cards).encode() if spoilt else reading.spoilt_json(cards, data.draw))
    reading(Published.load, folder)


class TestNamed:
    """Each ends in one line that names the file and what to do."""

    @pytest.mark.parametrize("wrong", [
        {"mean": 1.0}, {"std": [None]}, {"num_classes": "3"}, {"mean": [None]}, {"num_classes": True}, {"name": []},
        {"shape": []}, {"mean": [10**400]}, {"std": [float("nan")]}, {"std": [1e39]}, {"substitute": {}},
    ])  # fmt: skip
    def test_card(self, tmp_path, wrong):
        (tmp_path / "d.safetensors").write_bytes(TENSORS)
        (tmp_path / "d.json").write_text(json.dumps(CARD | wrong))
        with pytest.raises(
            UserError, match=rf"^{tmp_path}/d.safetensors is no prepared dataset: its card .*; delete it"
        ):
            Dataset.load(tmp_path / "d.safetensors")

    @pytest.mark.parametrize("notes", [b"{}", b'{"index_columns": [1]}', b'{"index_columns": [], "columns": [{}]}'])
    def test_parquet(self, tmp_path, notes):
        table = pyarrow.Table.from_pandas(TABLE).replace_schema_metadata({b"pandas": notes})
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(UserError, match=rf"^{tmp_path}/t.parquet is damaged \(.+\): delete it"):
            read_table(tmp_path / "t.parquet")

    @pytest.mark.parametrize(("column", "cell"), [("n", "inf"), ("clusters", "inf")])
    def test_results(self, tmp_path, column, cell):
        lines = pd.read_csv(ROOT / "results/small/lrp/table1.csv", dtype=str, keep_default_na=False).head(3)
        lines.loc[0, column] = cell
        lines.to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(
            UserError, match=rf"^{tmp_path}/t.csv, line 2: {column} is 'inf', not a whole number: delete"
        ):
            ResultTable.read(tmp_path / "t.csv")

    def test_curve_of_more_points_than_any_run_has(self):
        line = {**dict.fromkeys((*POINT_COLUMNS, *SHARED_COLUMNS), ""), "row": '{"index": "0-1000000"}'}
        with pytest.raises(ValueError, match="line 2: index speaks of 1,000,001 points, more than 100,000"):
            next(unpacked([(2, line)]))

    def test_a_long_curve_is_written_as_lines_that_are_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(compact, "MOST_POINTS", 3)
        rows = tuple(ResultRow("p", "i", {"index": k}, "loss", float(k)) for k in range(8))
        ResultTable(rows).write(tmp_path / "t.csv")
        assert len((tmp_path / "t.csv").read_text().splitlines()) == 1 + 3
        assert ResultTable.read(tmp_path / "t.csv").rows == rows

    @pytest.mark.parametrize("row", ['[{"index": "0-9"}]', '{"index": "0-9", "a": ' + "[" * 100_000])
    def test_keys_of_a_curve_that_are_none(self, tmp_path, row):
        lines = pd.read_csv(ROOT / "results/small/lrp/table1.csv", dtype=str, keep_default_na=False).head(3)
        lines.loc[1, "row"] = row
        lines.to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(UserError, match=rf"^{tmp_path}/t.csv, line 3: row is .*: delete"):
            ResultTable.read(tmp_path / "t.csv")

    @pytest.mark.parametrize("cell", ["inf,0.1,4", "3,0.1,inf"])
    def test_numbers(self, tmp_path, cell):
        index, std, n = cell.split(",")
        (tmp_path / "n.csv").write_text(f'row,metric,index,value,std,n\n"{{""a"": 1}}",m,{index},1.0,{std},{n}\n')
        with pytest.raises(UserError, match=rf"^{tmp_path}/n.csv is damaged: delete it"):
            read_numbers(tmp_path / "n.csv")

    @pytest.mark.parametrize("items", [[], "x", 1])
    def test_published_cards(self, tmp_path, items):
        (tmp_path / "cards.json").write_text(json.dumps({"cards": [], "items": items}))
        with pytest.raises(UserError, match=rf"^{tmp_path}/cards.json is damaged .*: restore it"):
            Published.load(tmp_path)
