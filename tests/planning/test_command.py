"""The command of a step, as its rule declares it."""

import inspect
import json
from types import SimpleNamespace

from snakemake.iocontainers import Namedlist

from leaklab.planning.lookups import files, step
from leaklab.planning.result_lookups import dataset_spec


def named(**paths):
    """Return files as Snakemake gives them to a function: a name is of one, of several or of none."""
    found = Namedlist()
    for name, value in paths.items():
        start, several = len(found), not isinstance(value, str)
        found.extend(value if several else [value])
        found._set_name(name, start, end=len(found) if several else None)
    return found


def test_a_step_is_told_what_its_rule_has():
    started = "exec python -IS src/leaklab/fork_server.py leaklab.steps.make_table"
    base = f"{started} --spec {{params.spec:q}} --code {{params.code}}"
    assert step("make_table") == f"{base} {{params.files}} 2> {{log}}"
    device = " --device {resources.device} --threads {threads}"
    assert step("make_table", "device", "threads") == f"{base}{device} {{params.files}} 2> {{log}}"


def test_files_have_the_names_of_the_rule():
    read = named(dataset="d.csv", weights=["a", "b"], generator=[], before="left-1.json", checkpoint=[])
    written = named(run="run.json", pages=["style.css"], checkpoint="c")
    assert files(None, read, written) == (
        "--input dataset=d.csv $(printf ' weights=%s' a b) $(printf ' generator=%s' )"
        " --output run=run.json checkpoint=c"
    )
    assert files(None, named(), named(run="run.json")) == "--output run=run.json"


def test_snakemake_does_not_compare_what_asks_for_files():
    assert list(inspect.signature(files).parameters) == ["wildcards", "input", "output"]
    assert "output" in inspect.signature(dataset_spec).parameters


def test_a_data_set_is_told_by_name():
    assert json.loads(dataset_spec(SimpleNamespace(dataset="mnist"), [])) == {"dataset": "mnist"}
