"""The JSON schemas of the YAML files: what editors show is what the program accepts."""

import json
from pathlib import Path

import pytest
import yaml

from leaklab.planning.schema import schema_texts, write_schemas
from leaklab.records.config import Config

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
SCHEMAS = {path.name.split(".")[0]: json.loads(text) for path, text in schema_texts().items()}


def errors(name, value):
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    return [error.message for error in validator.iter_errors(value)]


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_configuration_and_every_item_fit_their_schema():
    assert errors("config", read(ROOT / "config/config.yaml")) == []
    papers = sorted((ROOT / "config/items").glob("*/paper.yaml"))
    items = sorted({*(ROOT / "config/items").glob("*/*.yaml")} - {*papers})
    assert (len(papers), len(items)) == (3, 102)  # 51 of the papers and the others derived from them
    for name, paths in (("paper", papers), ("item", items)):
        for path in paths:
            assert errors(name, read(path)) == [], path


def test_the_schemas_in_the_repository_are_current():
    assert {ROOT / path: text for path, text in schema_texts().items()} == {
        path: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/schemas").iterdir()
    }


def numbers(node, path=""):
    """Yield every number of a schema, with its path."""
    if isinstance(node, dict):
        if node.get("type") in ("integer", "number"):
            yield path, node
        for key, inner in node.items():
            yield from numbers(inner, f"{path}/{key}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from numbers(inner, f"{path}/{number}")


def test_every_number_of_a_run_has_a_smallest_and_a_largest_value():
    found = dict(numbers(SCHEMAS["specs"]["$defs"]))
    assert len(found) > 50
    for path, node in found.items():
        if "/settings/" in path:  # of plug-ins, which declare their own (records/plugins.py)
            continue
        assert {"minimum", "exclusiveMinimum"} & set(node), path
        assert {"maximum", "exclusiveMaximum"} & set(node), path


def test_a_misspelt_key_does_not_fit():
    table1 = read(ROOT / "config/items/lrp/table1.yaml")
    assert errors("item", {**table1, "titel": "x"}) != []
    assert errors("item", {**table1, "cells": {**table1["cells"], "units": "%"}}) != []
    assert errors("config", {"scale": "huge"}) != []


def test_every_setting_of_the_configuration_is_explained():
    properties = SCHEMAS["config"]["properties"]
    assert set(properties) == set(Config.model_fields)
    assert all(field["description"] for field in properties.values())


def test_the_configuration_points_editors_to_its_schema():
    first = (ROOT / "config/config.yaml").read_text(encoding="utf-8").splitlines()[0]
    named = first.partition("$schema=")[2]
    assert (ROOT / "config" / named).resolve().relative_to(ROOT) in schema_texts()


def test_the_schemas_are_written_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("workflow").mkdir()
    Path("workflow/Snakefile").write_text("", encoding="utf-8")
    written = write_schemas()
    assert {path: path.read_text(encoding="utf-8") for path in written} == schema_texts()
