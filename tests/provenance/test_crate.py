"""The research object: every run an action, every file with its hash, every reference to something that is there."""

from datetime import datetime
from pathlib import Path

import pytest

from leaklab.provenance.crate import PROFILES, WORKFLOW, crate
from leaklab.records.ledger import Entry, Ledger

PAGE = "results/small/report/index.html"
DATA = "data/prepared/digits.safetensors"
SWEEPS = [f"results/runs/train/{name}/sweep.parquet" for name in ("a", "b")]
TABLE = "results/small/lrp/table1.csv"
YAML = "config/items/lrp/table1.yaml"
STARTED = "2026-01-02T03:04:05+00:00"


def digest(path):
    return f"{sum(path.encode()):064x}"


def entry(rule, record, inputs, outputs, wall_seconds=1.0, started=STARTED):
    content = {
        "rule": rule,
        "spec": {},
        "code": "abc",
        "commit": "c" * 40,
        "inputs": {path: digest(path) for path in inputs},
        "outputs": {path: digest(path) for path in outputs},
        "started": started,
        "wall_seconds": wall_seconds,
    }
    return Entry(Path(record), content)


@pytest.fixture
def ledger():
    """A report on a table of two trainings on one dataset, and a run that the report does not rest on."""
    return Ledger(
        Path(),
        (
            entry("fetch_dataset", "data/prepared/digits.run.json", [], [DATA], wall_seconds=0.0),
            entry("train_federated", "results/runs/train/a/run.json", [DATA], [SWEEPS[0]], wall_seconds=59.6),
            entry("train_federated", "results/runs/train/b/run.json", [DATA], [SWEEPS[1]], wall_seconds=7200.0),
            entry("train_federated", "results/runs/train/old/run.json", [DATA], ["results/runs/train/old/sweep"]),
            entry("make_table", "results/small/lrp/table1.run.json", [YAML, *SWEEPS], [TABLE]),
            entry("build_report", "results/small/report/run.json", [TABLE], [PAGE, "results/small/report/style.css"]),
        ),
    )


@pytest.fixture
def document(ledger):
    return crate(ledger, PAGE)


@pytest.fixture
def entities(document):
    return {entity["@id"]: entity for entity in document["@graph"]}


def of_kind(entities, kind):
    types = {name: entity["@type"] for name, entity in entities.items()}
    return {name: entities[name] for name, found in types.items() if kind in ([found] if type(found) is str else found)}


def references(value):
    """Yield the ids that a property points to."""
    if isinstance(value, dict):
        yield value["@id"]
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def test_ids_are_unique(document, entities):
    assert len(entities) == len(document["@graph"])


def test_the_document_describes_the_root_and_the_root_says_what_it_is(entities):
    descriptor = entities["ro-crate-metadata.json"]
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = entities["./"]
    assert root["@type"] == "Dataset"
    assert [profile["@id"] for profile in root["conformsTo"]] == list(PROFILES)
    assert {"name", "description", "license", "datePublished"} <= set(root)


def test_what_is_referred_to_is_described(entities):
    """Only addresses on the web may be referred to without an entity of their own."""
    for entity in entities.values():
        for value in entity.values():
            for name in references(value):
                assert name in entities or name.startswith("https://"), name


def test_every_profile_is_described(entities):
    assert all(entities[profile]["@type"] == "CreativeWork" for profile in PROFILES)


def test_every_run_behind_the_report_is_an_action(entities):
    actions = of_kind(entities, "CreateAction")
    whole = actions.pop("#workflow-run")
    assert whole["instrument"]["@id"] == "workflow/Snakefile"
    rules = sorted(action["instrument"]["@id"] for action in actions.values())
    assert rules == ["#build_report", "#fetch_dataset", "#make_table", "#train_federated", "#train_federated"]
    assert {reference["@id"] for reference in entities["./"]["mentions"]} == {"#workflow-run", *actions}


def test_what_the_report_does_not_rest_on_is_left_out(entities):
    assert not any("old" in name for name in entities)


def test_files_of_an_action_are_there_with_their_hashes(entities):
    files = of_kind(entities, "File")
    for action in of_kind(entities, "CreateAction").values():
        used = [part["@id"] for part in (*action["object"], *action["result"])]
        assert used
        for name in used:
            assert files[name]["sha256"] == digest(name)


def test_an_actions_files_are_those_of_its_record(entities):
    table = entities["#run:results/small/lrp/table1.run.json"]
    assert {part["@id"] for part in table["object"]} == {YAML, *SWEEPS}
    assert [part["@id"] for part in table["result"]] == [TABLE]
    assert "c" * 40 in table["description"]


def test_all_files_are_parts_of_the_root(entities):
    parts = {part["@id"] for part in entities["./"]["hasPart"]}
    assert parts == set(of_kind(entities, "File"))
    assert {WORKFLOW, DATA, *SWEEPS, TABLE, YAML, PAGE} <= parts


def test_the_workflow_is_the_main_entity_and_its_steps_are_the_rules(entities):
    assert entities["./"]["mainEntity"] == {"@id": WORKFLOW}
    assert "ComputationalWorkflow" in entities[WORKFLOW]["@type"]
    assert {part["@id"] for part in entities[WORKFLOW]["hasPart"]} == set(of_kind(entities, "SoftwareApplication"))


def test_no_action_ends_before_it_starts(entities):
    for action in of_kind(entities, "CreateAction").values():
        start, end = (datetime.fromisoformat(action[name]) for name in ("startTime", "endTime"))
        assert start.tzinfo is not None
        assert end >= start
    long = entities["#run:results/runs/train/b/run.json"]
    assert (long["startTime"], long["endTime"]) == (STARTED, "2026-01-02T05:04:05+00:00")


def test_it_was_published_when_the_last_run_had_ended(entities):
    assert entities["./"]["datePublished"] == "2026-01-02T05:04:05+00:00"


def test_pictures_and_tables_say_what_they_are(entities):
    kinds = {name: entities[name]["encodingFormat"] for name in (TABLE, PAGE, DATA)}
    assert kinds == {TABLE: "text/csv", PAGE: "text/html", DATA: "application/octet-stream"}


def test_the_same_records_give_the_same_document(ledger, document):
    assert crate(ledger, PAGE) == document
