"""Fits of curves against closed forms, and the plan's seconds and memory against jobs that are measured here."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from growth import __main__ as command
from growth.fits import fitted
from growth.measuring import Measured, measured, parameters_of
from growth.page import ITEMS, PAGE, PROFILES, TABLE, write_page
from growth.works import WIDTHS, jobs, mlp, training, works

from leaklab.planning.memory import memory_mb, peak_mb
from leaklab.planning.resources import cost
from leaklab.planning.work import ATTACK_SECONDS, START_SECONDS
from leaklab.specs.attack import AttackSpec

ROOT = Path(__file__).parents[2]
WITHIN = 2.0
TRIES = 1, 3, 5


@pytest.mark.parametrize(
    ("constant", "exponent"), [(0.0, 0.5), (5.0, 0.5), (0.0, 1.0), (5.0, 1.0), (300.0, 1.0), (300.0, 1.7), (5.0, 3.0)]
)
def test_a_constant_and_a_power_are_told_apart(constant, exponent):
    xs = [1, 4, 16, 64, 256, 1024]
    found = fitted(xs, [constant + 0.5 * x**exponent for x in xs])
    assert found.exponent == pytest.approx(exponent, abs=0.06)
    assert found.constant == pytest.approx(constant, rel=0.1, abs=0.3)
    assert found.residual < 1.03
    assert found.high == 1024


def test_a_curve_that_does_not_grow_has_no_exponent():
    found = fitted([1, 10, 100, 1000], [2.0, 2.1, 1.9, 2.0])
    assert found.exponent is None
    assert found.at(50) == pytest.approx(2.0, rel=0.03)
    assert found.residual < 1.05


def test_points_that_hardly_leave_the_constant_are_not_fitted():
    xs = [1, 10, 100, 1000, 10_000]
    found = fitted(xs, [10 + 0.01 * x for x in xs])
    assert found.low == 100
    assert found.exponent == pytest.approx(1.0, abs=0.05)


def test_a_step_that_grows_faster_at_its_end_says_so():
    found = fitted([1, 2, 4, 8, 16], [1.0, 2.0, 4.0, 8.0, 64.0])
    assert found.end > found.exponent + 0.5


def test_memory_is_fitted_above_what_libraries_hold():
    xs = [1, 10, 100, 1000]
    found = fitted(xs, [430 + 0.2 * x for x in xs], above=1.01)
    assert found.exponent == pytest.approx(1.0, abs=0.1)
    assert found.constant == pytest.approx(430, rel=0.01)


def test_measurements_and_values_have_to_be_as_many():
    with pytest.raises(ValueError, match="2 values and 1 measurements"):
        fitted([1, 2], [1.0])


def test_widths_are_those_of_a_thousand_to_ten_million_parameters():
    for width, wanted in zip(WIDTHS, (1e3, 1e4, 1e5, 1e6, 1e7), strict=True):
        assert parameters_of(training(mlp(width))) == pytest.approx(wanted, rel=0.2)


def test_every_axis_changes_one_quantity_from_its_smallest_value_up():
    for work in works():
        for axis in work.axes.values():
            assert list(axis.points) == sorted(set(axis.points))
            specs = [axis.spec(value) for value in axis.points]
            assert len({type(spec) for spec in specs}) == 1
            assert len(set(map(str, specs))) == len(specs)


def test_a_failed_point_says_why():
    broken = training({"name": "mlp", "settings": {"hidden": 4, "initialisation": "no such scheme"}})
    with pytest.raises(RuntimeError, match="no such scheme"):
        measured(broken)


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch):
    calls = []

    def counted(spec):
        calls.append(spec)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return Measured(0.5, 400.0, 10, 1)

    monkeypatch.setattr(command, "measured", counted)
    wanted, table = list(command.points(quick=True))[:5], tmp_path / "growth.csv"
    with pytest.raises(KeyboardInterrupt):
        command.measure(wanted, table, 1e9)
    calls.clear()
    assert command.measure(wanted, table, 1e9) == 0
    assert len(calls) == 2
    assert command.measure(wanted, tmp_path / "other.csv", -1.0) == 5


def test_every_number_of_the_page_is_of_a_table(tmp_path):
    for name in (TABLE, ITEMS, PROFILES):
        (tmp_path / name).write_bytes((ROOT / "benchmarks" / name).read_bytes())
    write_page(tmp_path)
    assert (tmp_path / PAGE).read_text() == (ROOT / "benchmarks" / PAGE).read_text()


FOUND: dict[str, list[Measured]] = {}
"""What a job takes at the speed of the machine that the plan knows, each time that it was measured."""

APART = """
import json, sys
from dataclasses import asdict
import torch
from growth.measuring import in_a_fork, measured
from growth.pace import pace
from growth.works import jobs
torch.set_num_threads(1)
for name in sys.argv[1:]:
    slower = in_a_fork(lambda: {"pace": pace()})["pace"]
    print(json.dumps([name, slower, asdict(measured(jobs()[name]))]))
"""
"""A fork holds what its parent holds, and the process of a thousand tests holds gigabytes; a machine that others use is
now fast, now slow: its pace is taken in the second before a job's, in the same way and on as many threads."""


def found(name: str, *, times: int = 1) -> Measured:
    """Return the median of what a job takes, measured so many times at least: others may compute beside it."""
    while len(FOUND.get(name, [])) < times:
        names = [name] if name in FOUND else list(jobs())
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "benchmarks")])
        done = subprocess.run([sys.executable, "-c", APART, *names], stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
        for line in done.stdout.splitlines():
            one, slower, content = json.loads(line)
            here = Measured(**content)
            FOUND.setdefault(one, []).append(replace(here, cpu_seconds=here.cpu_seconds / slower))
    return replace(FOUND[name][0], cpu_seconds=median(one.cpu_seconds for one in FOUND[name]))


def predicted(spec):
    """Return what the plan says of a job, without what its process does before: a fork has its imports already."""
    start = START_SECONDS + (ATTACK_SECONDS if isinstance(spec, AttackSpec) else 0.0)
    return cost(spec).likely - start


@pytest.mark.parametrize("name", jobs())
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a point is a fork of the process that measures")
def test_a_job_takes_the_seconds_of_the_plan_within_a_factor_of_two(name):
    said = predicted(jobs()[name])
    for times in TRIES:
        ratio = said / found(name, times=times).cpu_seconds
        if 1 / WITHIN < ratio < WITHIN:
            break
    assert 1 / WITHIN < ratio < WITHIN, f"{name}: the plan says {ratio:.2f} times what was measured"


@pytest.mark.parametrize("name", jobs())
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a point is a fork of the process that measures")
def test_a_job_holds_the_memory_of_the_plan_within_a_factor_of_two(name):
    spec, peak = jobs()[name], found(name).peak_mib
    assert 1 / WITHIN < peak_mb(spec) / peak < WITHIN
    assert peak < memory_mb(spec)
