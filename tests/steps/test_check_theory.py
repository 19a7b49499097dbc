"""The step from a spec to numbers.csv."""

import json

import pytest

from leaklab.records.files import read_json, write_json
from leaklab.steps import check_theory
from leaklab.steps.base import main
from leaklab.theory.base import Clients, Number, read_numbers

SPEC = {"check": {"name": "drift-sketch", "pairs": 50}, "seed": 3}


class Echo:
    """A check that says what it was given."""

    def run(self, seed, clients, track):
        assert list(track(range(3), 3, "echo")) == [0, 1, 2]
        self.given = seed, clients
        return [Number("seed", float(seed))]


def step(folder, spec, partition=""):
    arguments = ["--spec", json.dumps(spec), "--input", f"partition={partition}"]
    made = [f"numbers={folder / 'numbers.csv'}", f"run={folder / 'run.json'}"]
    main("check_theory", check_theory.run, [*arguments, "--output", *made])
    return read_numbers(folder / "numbers.csv")


def test_the_step_writes_numbers_and_facts(tmp_path):
    numbers = step(tmp_path, SPEC)
    assert {one.metric for one in numbers} >= {"x", "y", "angle"}
    assert read_json(tmp_path / "run.json")["facts"]["numbers"] == len(numbers)


def test_the_same_spec_gives_the_same_bytes_and_another_seed_others(tmp_path):
    files = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        (tmp_path / name).mkdir()
        step(tmp_path / name, {**SPEC, "seed": seed})
        files.append((tmp_path / name / "numbers.csv").read_bytes())
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize("deal", [None, {"clients": [[4, 1, 7], [0]], "num_classes": [2, 1]}])
def test_the_check_is_told_who_holds_how_much(tmp_path, monkeypatch, deal):
    echo = Echo()
    monkeypatch.setattr(check_theory.plugins, "load", lambda room, name, settings: echo)
    path = ""
    if deal:
        path = tmp_path / "partition.json"
        write_json(path, deal)
    assert step(tmp_path, {**SPEC, "seed": 9}, path) == (Number("seed", 9.0),)
    assert echo.given == (9, Clients((3, 1), (2, 1)) if deal else None)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"steps": 0}, "theory plug-in 'drift-sketch': steps: Input should be greater than or equal to 1, not 0"),
        ({"advantage": 1.5}, "drift-sketch: needs steps, a rate and pairs above 0 and an advantage between 0 and 1"),
    ],
)
def test_a_mistake_is_one_clear_line(tmp_path, setting, message):
    with pytest.raises(SystemExit, match=f"^leaklab check_theory: {message}$"):
        step(tmp_path, {"check": {"name": "drift-sketch", **setting}})
    assert list(tmp_path.iterdir()) == []
