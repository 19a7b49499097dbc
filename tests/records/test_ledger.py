"""From a result back to the raw data: which record made a file, and what stands behind it."""

import json
from pathlib import Path

import pytest

from leaklab.records.errors import UserError
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.recorder import Recorder

RAW = {"path": "digits.csv.gz", "sha256": "ab" * 32, "source": "mirror"}
DATA = "data/prepared/digits.safetensors"
CARD = "data/prepared/digits.json"
SWEEPS = [f"results/runs/train/digits-mlp-{name}/sweep.parquet" for name in ("none", "lrp")]
TABLE = "results/small/lrp/table1.csv"
FIGURE = "figures/small/lrp/table1.png"
YAML = "config/items/lrp/table1.yaml"


def make(record, rule, inputs, outputs, **facts):
    for name in outputs:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name, encoding="utf-8")
    recorder = Recorder(rule, "0" * 16, facts=facts)
    recorder.finish(Path(record), {}, {"read": [Path(p) for p in inputs]}, {p: Path(p) for p in outputs})


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """Two trainings on one dataset, a table of both and its figure."""
    monkeypatch.chdir(tmp_path)
    Path(YAML).parent.mkdir(parents=True)
    Path(YAML).write_text("title: a table\n", encoding="utf-8")
    make("data/prepared/digits.run.json", "fetch_dataset", [], [DATA, CARD], sources=[RAW])
    for sweep in SWEEPS:
        make(f"{Path(sweep).parent}/run.json", "train_federated", [DATA, CARD], [sweep])
    make("results/small/lrp/table1.run.json", "make_table", [YAML, *SWEEPS], [TABLE])
    make("figures/small/lrp/table1.run.json", "make_figure", [YAML, TABLE], [FIGURE])
    return tmp_path


def test_every_record_of_the_project_is_read():
    ledger = Ledger.scan()
    assert {entry.rule for entry in ledger.entries} == {"fetch_dataset", "train_federated", "make_table", "make_figure"}
    assert len(ledger.entries) == 5
    assert set(ledger.makers) == {DATA, CARD, *SWEEPS, TABLE, FIGURE}


def test_another_folder_is_read_with_paths_from_its_own_root(project, monkeypatch):
    here = [entry.path for entry in Ledger.scan().entries]
    monkeypatch.chdir("/")
    assert [entry.path for entry in Ledger.scan(project).entries] == here


def test_the_chain_of_a_figure_ends_at_the_dataset_and_its_raw_files():
    steps = list(Ledger.scan().chain(FIGURE))
    assert [(depth, path) for depth, path, _ in steps[:4]] == [(0, FIGURE), (1, YAML), (1, TABLE), (2, YAML)]
    depth, path, last = steps[-1]
    assert (depth, last.rule) == (3, "fetch_dataset")
    assert path in (DATA, CARD)
    assert last.content["facts"]["sources"] == [RAW]
    assert last.inputs == {}


def test_a_file_of_the_repository_has_no_record():
    steps = {path: entry for _, path, entry in Ledger.scan().chain(FIGURE)}
    assert [path for path, entry in steps.items() if entry is None] == [YAML]


def test_the_chain_goes_down_each_road_once():
    """Both trainings read the dataset; were its record followed each time, the chain would grow with every level."""
    paths = [path for _, path, _ in Ledger.scan().chain(TABLE)]
    assert paths == [TABLE, YAML, *[name for sweep in sorted(SWEEPS) for name in (sweep, *sorted([CARD, DATA]))]]


@pytest.mark.parametrize("name", [TABLE, f"./{TABLE}"])
def test_the_maker_of_a_file_is_found(name):
    assert Ledger.scan().maker(name).rule == "make_table"


@pytest.mark.parametrize("name", [YAML, "results/small/lrp/table2.csv", "nothing"])
def test_a_file_without_a_record_is_one_clear_line(name):
    with pytest.raises(UserError) as caught:
        Ledger.scan().maker(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: no record names this file")
    assert "\n" not in message


def test_a_chain_may_close_on_itself():
    """A record that read what it wrote must not keep the trace from ending."""
    content = {"rule": "r", "inputs": {"a": "0"}, "outputs": {"a": "1"}, "spec": {}, "code": ""}
    steps = list(Ledger(Path(), (Entry(Path("run.json"), content),)).chain("a"))
    assert [(depth, path) for depth, path, _ in steps] == [(0, "a"), (1, "a")]


@pytest.mark.parametrize("content", [[], {}, {"rule": "make_table", "inputs": {}, "outputs": {}}])
def test_what_is_no_record_is_named(content):
    Path("results/small/run.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=r"results/small/run\.json is not a run record: delete it"):
        Ledger.scan()


def test_a_damaged_record_is_named():
    Path("results/small/run.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"results/small/run\.json is damaged"):
        Ledger.scan()


@pytest.mark.parametrize("inputs", [["a"], "x", None, {"a": 1}, {"/etc/passwd": "0"}, {"../a": "0"}, {"a/../b": "0"}])
def test_a_record_that_names_no_files_of_the_project_is_one_line(inputs):
    content = {"rule": "r", "inputs": inputs, "outputs": {}, "spec": {}, "code": ""}
    Path("results/small/run.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=r"results/small/run\.json: 'inputs'"):
        Ledger.scan()


def test_a_record_of_brackets_is_one_line():
    Path("results/small/run.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(UserError, match=r"results/small/run\.json is damaged"):
        Ledger.scan()
