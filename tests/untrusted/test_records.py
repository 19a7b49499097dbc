"""Run records and measurements of others: commands and reports read them, or refuse them in one line."""

import json
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.planning import devices, fetching, pieces
from leaklab.planning.code_lock import FILE as CODE_LOCK
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.run_records import checked_ledger, inputs_of, lacked_data
from leaklab.provenance import audit, tracing
from leaklab.provenance.crate import crate
from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json
from leaklab.report.site.publication import cost_of

UNTRUSTED = settings.get_profile("untrusted")
DATA, SWEEP = "data/prepared/digits.safetensors", "results/runs/train/aa/sweep.parquet"
TABLE, PAGE = "results/small/lrp/table1.csv", "results/small/report/index.html"
CALIBRATION = {"cpu": {"name": "x86", "factors": {"train/mlp": 1.5, "attack/mlp/ig": 2}}}
LOCKED = json.loads((Path(__file__).parents[2] / CODE_LOCK).read_text(encoding="utf-8"))


def record(rule, inputs, outputs, **more):
    return {
        "format": 1, "rule": rule, "spec": {}, "code": "abc", "commit": "c" * 40, "dirty": False, "device": "cpu",
        "facts": {}, "inputs": {path: sha256(Path(path)) for path in inputs},
        "outputs": {path: sha256(Path(path)) for path in outputs}, "started": "2026-01-02T03:04:05+00:00",
        "wall_seconds": 1.0, "cpu_seconds": 1.0, "peak_memory_mb": 3.0, **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A data set, a training, a table and a report, each with its record: path of the record -> its content."""
    folder = tmp_path_factory.mktemp("project")
    with chdir(folder):
        for path in (DATA, SWEEP, TABLE, PAGE):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(path, encoding="utf-8")
        raw = {"path": "mnist.gz", "sha256": "b", "source": "mirror"}
        yield {
            "data/prepared/digits.run.json": record("fetch_dataset", [], [DATA], facts={"sources": [raw]}),
            "results/runs/train/aa/run.json": record("train_federated", [DATA], [SWEEP], spec={"dataset": "digits"}),
            "results/small/lrp/table1.run.json": record("make_table", [SWEEP], [TABLE]),
            "results/small/report/run.json": record("build_report", [TABLE], [PAGE]),
        }


def audited():
    ledger = checked_ledger()
    found = audit.audit(ledger)
    return "".join([*found.breaks, *found.stale, *found.remade, *CodeLock.load().faults(ledger)])


def traced():
    links = tracing.chain_of(TABLE)
    return "".join([*tracing.lines(links), *tracing.summary(links), json.dumps(tracing.as_json(links))])


def costs():
    entries = checked_ledger().behind(PAGE).entries
    return cost_of(entries) if entries else None


def pulled():
    for place in ("data/prepared/digits.run.json", "results/runs/train/aa/run.json"):
        if differing := fetching._differing(Path(place)):
            raise UserError(f"{', '.join(differing)}: not what the record says")


def of_tables():
    return inputs_of(Path("results/small/report/run.json")), lacked_data(Path("results/small/lrp/table1.run.json"))


USES = [audited, traced, costs, pulled, of_tables, lambda: json.dumps(crate(checked_ledger(), PAGE))]


@pytest.mark.parametrize("use", USES, ids=["audit", "trace", "costs", "pull", "tables", "crate"])
@settings(UNTRUSTED, max_examples=150)
@given(data=st.data())
def test_altered_record(project, reading, use, data):
    for path, content in project.items():
        Path(path).write_text(json.dumps(content), encoding="utf-8")
    path = data.draw(st.sampled_from(sorted(project)))
    Path(path).write_bytes(reading.spoilt_json(project[path], data.draw))
    reading(use)


def measured():
    device = devices.measured_device("cpu")
    devices.keep_measured(device, Path("measured.json"))
    return devices.measured_device("cpu", Path("measured.json"))


PIECES = Path("pieces/pieces.json")
KEPT = {
    "calibration": (devices.FILE, CALIBRATION, measured),
    "pieces": (
        Path("pieces/pieces.json"),
        {"pieces": 6, "chain": 3, "seconds": 900},
        lambda: pieces.kept_in(Path("pieces/pieces.json")),
    ),
    "code lock": (CODE_LOCK, LOCKED, lambda: list(CodeLock.load().faults(checked_ledger()))),
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
@settings(UNTRUSTED, max_examples=150)
@given(data=st.data())
def test_altered_note(tmp_path_factory, reading, kept, data):
    place, content, use = kept
    with chdir(tmp_path_factory.getbasetemp()):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(reading.spoilt_json(content, data.draw))
        try:
            reading(use)
        finally:
            place.unlink()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rule", "[x"),
        ("code", {}),
        ("code", "\ud800"),
        ("commit", "\x1b]0;title\x07"),
        ("facts", {"sources": [{"path": "x"}]}),
        ("facts", []),
        ("started", "2026-01-02"),
        ("started", 5),
        ("wall_seconds", float("nan")),
        ("cpu_seconds", 10**400),
        ("spec", []),
        ("inputs", {"a" * 300: "b"}),
        ("outputs", {"a\ud800": "b"}),
    ],
)
def test_a_field_that_is_wrong_is_named(project, field, value):
    path = Path("results/small/lrp/table1.run.json")
    for other, content in project.items():
        Path(other).write_text(json.dumps(content), encoding="utf-8")
    path.write_text(json.dumps(project[str(path)] | {field: value}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"^{path}: {field}.*: the record is damaged: delete it"):
        checked_ledger()


def test_a_record_outside_the_project_is_not_followed(project):
    path = Path("results/runs/train/aa/run.json")
    write_json(path, {**project[str(path)], "outputs": {"/etc/passwd": sha256(Path("/etc/passwd"))}})
    assert fetching._differing(path) == ["/etc/passwd"]
