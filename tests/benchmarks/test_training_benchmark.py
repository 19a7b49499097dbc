"""The benchmark believes a figure only for work that was done; no peer is needed here."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from speed import contest as shared_contest
from speed import environments
from speed.command import status
from speed.contest import Results, hold
from speed.contestants import OURS, Contestant
from speed.costs import StepCost, network_of, step_cost
from speed.environments import NotInstalledError, python_of
from speed.kept import Kept
from speed.processes import FailedError, output
from training_speed import contest
from training_speed.contest import heat_of
from training_speed.contestants import CONTESTANTS
from training_speed.report import page, table
from training_speed.rows import rows
from training_speed.runs import Measurement, check, measured
from training_speed.workers import ours
from training_speed.workers.plain import PlainLoop
from training_speed.workers.tight import TightLoop
from training_speed.workers.torch_parts import positions
from training_speed.workloads import WORKLOADS, Workload

PYTHON = Path(sys.executable)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
TINY = replace(
    BY_NAME["w1-mlp-sweep"],
    samples=20,
    batch_size=8,
    local_steps=5,
    rounds=2,
    seeds=(1024, 1022),
    settings=((0.01, 0.02),),
)
OUR, PLAIN = (next(contestant for contestant in CONTESTANTS if contestant.name == name) for name in (OURS, "plain"))


def run_of(workload: Workload, cpu_us: float, parameters: int = 1, **more: float) -> Measurement:
    """Return a measurement of so many microseconds per step."""
    seconds = cpu_us * workload.steps / 1e6
    measurement = Measurement(seconds, 2 * seconds, 1.0, 1.5, workload.steps, parameters, 1)
    return replace(measurement, **more)


def results_of(ours: list[float], plain: list[float], peak: float = 100.0) -> Results:
    """Return results of a step of 1 MFLOP in microseconds per step."""
    return Results(
        costs={TINY.name: StepCost(flop=1_000_000, parameters=1)},
        runs={
            (TINY.name, OURS): [run_of(TINY, cost) for cost in ours],
            (TINY.name, "plain"): [run_of(TINY, cost) for cost in plain],
        },
        peaks={"sgemm": peak / 2, "convolution": peak},
    )


def test_a_workload_says_how_many_steps_it_is():
    assert TINY.steps == 2 * 1 * 2 * 2 * 5  # seeds x settings x rounds x participants x local steps
    assert BY_NAME["w1-cnn-cell"].steps == BY_NAME["w1-cnn-cell"].rounds * 50
    assert len(BY_NAME["w1-lr-sweep"].cells) == 27


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_workload_survives_the_way_to_its_worker(workload):
    assert Workload.from_json(workload.to_json()) == workload


@pytest.mark.parametrize(("loop", "count"), [(PlainLoop, "steps"), (TightLoop, "client.steps")])
def test_the_plain_loops_count_every_step(loop, count):
    trained = loop(TINY)
    trained.train_cell(TINY.cells[0], TINY.rounds)
    counted = trained
    for name in count.split("."):
        counted = getattr(counted, name)
    assert counted == TINY.steps // len(TINY.cells)


def test_the_tight_loop_steps_as_torch_does():
    workload = replace(TINY, model="logistic-regression", momentum=0.5, weight_decay=0.1)
    client = TightLoop(workload).client
    oracle = network_of(workload, seed=0)
    start = [value.clone() for value in client.tensors]
    client.train(start, client=1, rate=0.3, generator=torch.Generator().manual_seed(5))

    optimizer = torch.optim.SGD(oracle.parameters(), lr=0.3, momentum=0.5, weight_decay=0.1)
    for batch in positions(workload, 1, torch.Generator().manual_seed(5)).split(workload.batch_size):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(oracle(client._images[batch]), client._labels[batch]).backward()
        optimizer.step()
    for value, expected in zip(client.tensors, oracle.parameters(), strict=True):
        torch.testing.assert_close(value, expected.detach())


def test_positions_fill_all_steps_and_stay_with_the_client():
    held = positions(TINY, 1, torch.Generator().manual_seed(0))
    assert len(held) == TINY.local_steps * TINY.batch_size
    assert set(held.tolist()) <= set(range(20, 40))
    assert len(set(held[:16].tolist())) == 16  # within an epoch no sample comes twice


def test_our_worker_reports_the_steps_after_its_warm_up():
    run = measured(PYTHON, OUR.module, TINY, step_cost(TINY), limit=120)
    assert run.steps == TINY.steps
    assert run.cpu > 0
    assert run.startup_wall > 0


@pytest.mark.parametrize("missing", [-1, 0, 1])
def test_our_worker_hides_no_step_that_the_engine_did_not_do(missing, monkeypatch, capsys):
    def engine(spec, dataset, clients, track):
        done = len(list(track(range(spec.rounds), spec.rounds, "rounds")))
        steps = len(spec.seeds) * len(spec.rates) * done * len(clients) * spec.local_steps
        return SimpleNamespace(client_steps=steps - missing)

    monkeypatch.setattr(ours, "train", engine)
    monkeypatch.setattr(ours, "one_thread", lambda: None)
    monkeypatch.setattr(sys, "argv", ["ours", TINY.to_json()])
    ours.main()
    assert json.loads(capsys.readouterr().out)["steps"] == TINY.steps - missing


def test_a_step_costs_what_its_matrix_products_cost():
    batch, pixels, hidden, classes = 32, 784, 64, 10
    # forward, gradient of the weights, and for the second layer gradient of its input
    flop = 2 * batch * (2 * pixels * hidden + 3 * hidden * classes)
    assert step_cost(BY_NAME["w1-mlp-cell"]) == StepCost(flop, pixels * hidden + hidden + hidden * classes + classes)


def test_too_few_steps_are_refused():
    lazy = run_of(TINY, 10.0, steps=TINY.steps - 1)
    with pytest.raises(FailedError, match=f"did {TINY.steps - 1} optimiser steps instead of {TINY.steps}"):
        check(lazy, TINY, StepCost(1, 1))


def test_another_model_is_refused():
    with pytest.raises(FailedError, match="trained 7 parameters instead of 1"):
        check(run_of(TINY, 10.0, parameters=7), TINY, StepCost(1, 1))


def test_ratios_are_of_medians():
    ours, plain = rows(results_of([10.0, 11.0, 90.0], [22.0, 33.0, 44.0]), [TINY], [OUR, PLAIN])
    assert ours.figures.cpu_us == pytest.approx(11.0)
    assert ours.figures.ratio == pytest.approx(1.0)
    assert plain.figures.ratio == pytest.approx(3.0)
    assert plain.figures.wall_us == pytest.approx(66.0)
    assert ours.figures.gflops == pytest.approx(1e6 / 11e-6 / 1e9)
    assert ours.figures.of_peak == pytest.approx(ours.figures.gflops / 100.0)


def test_a_figure_above_the_peak_is_refused():
    ours, plain = rows(results_of([10.0], [9.9]), [TINY], [OUR, PLAIN])
    assert ours.figures.of_peak == pytest.approx(1.0)
    assert plain.figures is None
    assert plain.reason == "void: 101 GFLOP/s are above the peak of 100"


def test_without_ours_there_are_no_ratios():
    results = results_of([10.0], [20.0])
    del results.runs[TINY.name, OURS]
    [plain] = rows(results, [TINY], [OUR, PLAIN])
    assert plain.figures.ratio is None
    assert "| plain | 20.0 | - |" in page([plain], results, "a machine", "make bench", 1)


def test_the_page_has_every_row():
    results = results_of([10.0], [25.0])
    peer = Contestant("peer", "peer", "a peer", "peer", cpus=2)
    results.failures[TINY.name, "peer"] = "not installed: no network"
    text = page(rows(results, [TINY], [OUR, PLAIN, peer]), results, "a machine", "make bench", 3)
    assert f"| {TINY.title} | 2.50 | - |" in text
    assert "| ours | 10.0 | 1.00 | 20.0 | 100.0 | 100% | 1.5 |" in text
    assert "| plain | 25.0 | 2.50 | 50.0 | 40.0 | 40% | 1.5 |" in text
    assert "| peer | not installed: no network | - | - | - | - | - |" in text
    assert "sgemm 50, convolution 100" in " ".join(text.split())
    assert "peer: 2" in text


def test_the_table_has_every_run_and_every_reason():
    results = results_of([10.0, 11.0], [25.0])
    results.failures[TINY.name, "peer"] = "failed: out of memory"
    lines = table(results)
    assert lines["repeat"].tolist()[:3] == [1, 2, 1]
    assert lines.loc[lines["contestant"] == "peer", "reason"].tolist() == ["failed: out of memory"]
    assert lines.loc[lines["workload"] == "peak", "gflops"].tolist() == [50.0, 100.0]
    assert lines["steps"].dropna().tolist() == [TINY.steps] * 3


def test_contestants_take_turns_and_a_failure_is_not_repeated(monkeypatch):
    order = []

    def pretended(python, module, workload, cost, limit):
        order.append(module)
        if module == "tight":
            raise FailedError("void: did 1 optimiser steps instead of 2")
        return run_of(workload, 10.0)

    def interpreter(environment):
        if environment == "fedjax":
            raise NotInstalledError("no matching distribution")
        return PYTHON

    monkeypatch.setattr(contest, "measured", pretended)
    monkeypatch.setattr(shared_contest, "output", lambda *given, limit: {"sgemm": 100.0})
    results = hold(heat_of, [TINY], CONTESTANTS, repeats=2, limit=1, interpreter=interpreter)
    first = ["ours", "without_compiler", "plain", "tight", "peer_pfl", "peer_flower"]
    assert order == [*first, *(one for one in first if one != "tight")]
    assert results.failures == {
        (TINY.name, "tight"): "failed: void: did 1 optimiser steps instead of 2",
        (TINY.name, "fedjax"): "not installed: no matching distribution",
    }
    assert len(results.runs[TINY.name, "pfl"]) == 2


def test_a_workload_without_its_model_fails_for_all_and_the_next_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(contest, "measured", lambda python, module, workload, cost, limit: run_of(workload, 1e4))
    monkeypatch.setattr(shared_contest, "output", lambda *given, limit: {"sgemm": 100.0})
    broken = replace(TINY, name="broken", model="nothing")
    results = hold(heat_of, [broken, TINY], [OUR, PLAIN], repeats=1, limit=1, interpreter=lambda environment: PYTHON)
    assert set(results.runs) == {(TINY.name, OURS), (TINY.name, "plain")}
    lines = rows(results, [broken, TINY], [OUR, PLAIN])
    assert [line.reason.startswith("unknown models plug-in") for line in lines] == [True, True, False, False]
    assert (status(lines), status(lines[2:])) == (1, 0)


def test_a_benchmark_that_was_stopped_goes_on_with_the_workload_that_it_was_at(monkeypatch, tmp_path):
    order = []

    def pretended(python, module, workload, cost, limit):
        order.append((workload.name, module))
        if len(order) == 3:
            raise KeyboardInterrupt
        return run_of(workload, 1e4)

    monkeypatch.setattr(contest, "measured", pretended)
    monkeypatch.setattr(shared_contest, "output", lambda *given, limit: {"sgemm": 100.0})
    workloads = [TINY, replace(TINY, name="another")]
    given = {"repeats": 1, "limit": 1, "interpreter": lambda environment: PYTHON}
    kept = Kept("training", ["--repeats", "1"], "a machine", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        hold(heat_of, workloads, [OUR, PLAIN], **given, kept=kept)
    assert Kept("training", [], "a machine", tmp_path).read() is None
    results = hold(heat_of, workloads, [OUR, PLAIN], **given, kept=kept)
    assert [name for name, _ in order] == [TINY.name, TINY.name, "another", "another", "another"]
    assert len(results.runs) == 4
    whole = kept.file.read_bytes()
    for content in (b"", b"damaged", whole[: len(whole) // 2]):
        kept.file.write_bytes(content)
        assert kept.read() is None
    kept.end()
    assert not list(tmp_path.iterdir())


def test_what_failed_is_tried_again(monkeypatch, tmp_path):
    def fails(python, module, workload, cost, limit):
        raise FailedError("void")

    monkeypatch.setattr(contest, "measured", fails)
    monkeypatch.setattr(shared_contest, "output", lambda *given, limit: {"sgemm": 100.0})
    kept = Kept("training", [], "a machine", tmp_path)
    hold(heat_of, [TINY], [OUR], repeats=1, limit=1, interpreter=lambda environment: PYTHON, kept=kept)
    assert kept.read() is None


def test_a_broken_worker_ends_in_one_line():
    with pytest.raises(FailedError) as failure:
        output(PYTHON, "training_speed.workers.plain", "no json", limit=60)
    assert str(failure.value).startswith("json.decoder.JSONDecodeError")
    assert "\n" not in str(failure.value)


def test_a_worker_that_takes_too_long_is_ended():
    with pytest.raises(FailedError, match="took longer than 0 s"):
        output(PYTHON, "speed.peak", limit=0.01)


def test_an_environment_that_cannot_be_made_says_why(tmp_path, monkeypatch):
    (tmp_path / "lonely.txt").write_text("nothing==1\n")
    complaints = ["", "ERROR: Could not find a version\nERROR: No matching distribution found for nothing==1\nnote"]

    def pip(command, **options):
        complaint = complaints.pop(0)
        return subprocess.CompletedProcess(command, bool(complaint), "", complaint)

    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(environments, "VENVS", tmp_path / "venvs")
    monkeypatch.setattr(environments.subprocess, "run", pip)
    with pytest.raises(NotInstalledError, match=r"^No matching distribution found for nothing==1$"):
        python_of("lonely")
