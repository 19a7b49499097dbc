"""Some faults on one chain of jobs, and that what judges them can tell a bad end from a good one."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from chaos.bench import Bench, Harm, verdicts
from chaos.calls import Said
from chaos.damage import DAMAGES, harm_file
from chaos.jobs import Job, levels
from operations.page import faults

from leaklab.records.files import sha256

ROOT = Path(__file__).parents[2]
FRAMES = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    work()\n'


@pytest.mark.skipif(not os.environ.get("LEAKLAB_CHAOS"), reason="LEAKLAB_CHAOS is not set: faults take some minutes")
@pytest.mark.workflow
def test_faults_on_one_chain_of_jobs_are_survived(tmp_path):
    table = tmp_path / "chaos.csv"
    command = [sys.executable, "-m", "chaos", "--quick", "--output", str(table)]
    given = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = pd.read_csv(table)
    assert len(found) >= 10
    assert found["survived"].all()
    assert not found[["lost", "wrong", "tracebacks"]].to_numpy().any()
    assert {"kill", "damaged output", "kill of the call"} <= set(found["kind"])


def bench_of(folder, content):
    job = Job("score_attack", "score_attack", ("scores.csv",), "run.json", 0)
    (folder / "reference").write_text("right")
    (folder / "scores.csv").write_text(content)

    class Here:
        workspace = type("", (), {"folder": folder})

    return Bench(Here(), [job], {"scores.csv": sha256(folder / "reference")}, {}), job


@pytest.mark.parametrize(
    ("content", "status", "survived", "wrong"),
    [("right", 0, True, 0), ("wrong", 0, False, 1), ("right", 1, False, 0)],
)
def test_a_fault_is_survived_with_exit_status_0_and_the_bytes_of_the_reference(
    tmp_path, content, status, survived, wrong
):
    bench, job = bench_of(tmp_path, content)
    (fault,) = verdicts(bench, "kill", Harm({job: "SIGKILL"}), Said(status, "", 1.0), [])
    assert (fault.survived, fault.wrong) == (survived, wrong)


def test_what_is_made_again_and_tracebacks_are_counted_once_for_a_call(tmp_path):
    bench, job = bench_of(tmp_path, "right")
    other = Job("table", "table", ("scores.csv",), "other.json", 0)
    said = Said(0, f"{FRAMES}ValueError: no\n", 2.0)
    found = verdicts(bench, "kill", Harm({job: "", other: ""}, [said]), Said(0, "", 1.0), ["a", "b"])
    assert [(fault.lost, fault.tracebacks, fault.seconds) for fault in found] == [(2, 1, 1.5), (0, 0, 1.5)]
    assert found[0].reason == "made again: a, b; a traceback: ValueError: no"
    assert not found[1].reason


def test_the_answer_to_an_interrupt_is_told_from_other_tracebacks():
    said = Said(1, f"a\n{FRAMES}KeyboardInterrupt\n{FRAMES}OSError: [Errno 5]\n", 1.0)
    assert (said.tracebacks, said.interrupts) == (1, 1)
    cancelled = f"{FRAMES}asyncio.exceptions.CancelledError\n\nDuring handling of the above exception:\n\n"
    under_asyncio = Said(-2, f"{cancelled}{FRAMES}KeyboardInterrupt\n", 1.0)
    assert (under_asyncio.tracebacks, under_asyncio.interrupts) == (0, 2)
    unasked = Said(1, f"{cancelled}{FRAMES}OSError: [Errno 5]\n{FRAMES}asyncio.exceptions.CancelledError", 1.0)
    assert (unasked.tracebacks, unasked.interrupts) == (3, 0)


@pytest.mark.parametrize(("ends", "counts"), [
    (("KeyboardInterrupt", "KeyboardInterrupt"), (0, 2)),
    (("KeyboardInterrupt", "ValueError: no"), (1, 1)),
    (("KeyboardInterrupt",), (1, 1)),
])  # fmt: skip
def test_answers_of_two_processes_whose_lines_are_mixed_are_told_from_errors(ends, counts):
    said = Said(
        1, "\n".join([*FRAMES.splitlines(), *FRAMES.splitlines(), *ends, "Error in rule"][: 6 + len(ends)]), 1.0
    )
    assert (said.tracebacks, said.interrupts) == counts


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_changes_the_bytes_and_not_the_time(tmp_path, how):
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    os.utime(path, (1e9, 1e9))
    harm_file(path, how, random.Random(0))
    assert path.read_bytes() != bytes(1000)
    assert path.stat().st_mtime == 1e9


def test_jobs_that_are_harmed_together_have_one_rank():
    jobs = [Job("r", "r", (str(number),), str(number), number // 3) for number in range(6)]
    assert [[job.rank for job in part] for part in levels(jobs, 2)] == [[0, 0], [0], [1, 1], [1]]


def test_the_page_names_what_was_not_survived(tmp_path):
    line = {"kind": "kill", "stage": "run_attack", "what": "SIGKILL", "seconds": 1.0, "survived": True, "lost": 0,
            "wrong": 0, "tracebacks": 0, "interrupts": 0, "reason": ""}  # fmt: skip
    bad = {**line, "kind": "clock", "survived": False, "wrong": 2, "reason": "other bytes: a, b"}
    pd.DataFrame([line, line, bad]).to_csv(tmp_path / "chaos.csv", index=False)
    text = faults(tmp_path / "chaos.csv")
    assert "3 faults, of which 2 survived: 0 finished files lost, 2 with wrong bytes, 0 tracebacks" in text
    assert "| clock | 1 | 0 | 0 | 2 | 0 | 0 | 1.0 |" in text
    assert "* clock, run_attack, SIGKILL: other bytes: a, b" in text
