"""What a call tells the user: a line a job, failures with their reason, and nothing of what only a log needs."""

import json
import logging

import pytest

from leaklab.planning.console import Console, time_left
from leaklab.planning.job_words import Told
from leaklab.planning.reasons import MEMORY, reason

COMMAND = "set -euo pipefail;  exec python -IS step --spec '{}' 2> logs/2.log"


class Call:
    """A call of three jobs, as Snakemake logs it."""

    def __init__(self, tells_jobs=True):
        self.lines, self.shown = [], []
        self.console = Console(self.lines.append, tells_jobs)

    def expect(self, *words):
        told = {n: Told(one, f"job-{n}", "train", 10) for n, one in enumerate(words, 1)}
        self.console.expect(told, 0)
        return self

    def log(self, event="", at=0, level=logging.INFO, **said):
        if not self.console.hear(event, level, at, said):
            self.shown.append(said.get("msg") or event)

    def begin(self, job, at, **more):
        self.log("job_info", at, jobid=job, rule_name="train_federated", **more)

    def finish(self, job, at):
        self.log("job_finished", at, job_id=job, msg=f"Finished jobid: {job}")

    def fail(self, job, at, log, error=""):
        if error:
            self.log("error", at, logging.ERROR, msg=error)
        self.log("job_error", at, logging.ERROR, jobid=job, rule_name="step", shellcmd=COMMAND, log=[str(log)])


def test_a_line_a_job_with_its_seconds_its_place_and_the_time_left():
    call = Call().expect("lrp/table1: training, MLP on digits, LRP", "b", "c")
    call.log(at=0, msg="Select jobs to execute...")
    call.log("job_started", 0, msg="Execute 1 jobs...")
    call.begin(1, 1)
    call.finish(1, 21.4)
    call.log("progress", 22, msg=None, done=1, total=3)
    call.begin(2, 22)
    call.finish(2, 220)
    call.begin(3, 220)
    call.finish(3, 223)
    assert call.lines == [
        "1 of 3  lrp/table1: training, MLP on digits, LRP: 20 s, less than a minute left",
        "2 of 3  b: 3 min 18 s, about 2 min left",
        "3 of 3  c: 3.0 s",
    ]
    assert call.shown == []


def test_a_job_without_words_is_counted_and_not_told():
    call = Call().expect("", "b")
    call.finish(1, 1)
    call.finish(3, 1)  # a target, which is no job
    call.finish(2, 2)
    assert call.lines == ["2 of 2  b: 0.0 s"]


def test_quiet_calls_tell_failures_only(tmp_path):
    call = Call(tells_jobs=False).expect("a", "b")
    call.finish(1, 1)
    call.fail(2, 2, tmp_path / "none.log")
    assert len(call.lines) == 1
    assert call.lines[0].startswith("leaklab: failed: b: ")


def test_a_cluster_s_jobs_take_what_their_records_say(tmp_path):
    record = tmp_path / "run.json"
    record.write_text(json.dumps({"wall_seconds": 7.5}))
    call = Call().expect("a", "b")
    call.begin(1, 0, local=False, output=["x.safetensors", str(record)])
    call.finish(1, 1000)
    call.begin(2, 0, local=False, output=[str(tmp_path / "lost.json")])
    call.finish(2, 1000)
    assert call.lines == ["1 of 2  a: 7.5 s, less than a minute left", "2 of 2  b: 0.0 s"]


def test_a_failure_has_its_reason_and_the_end_sums_up(tmp_path):
    log = tmp_path / "2.log"
    log.write_text("step 1\nleaklab run_attack: the disk is full: free some\n")
    call = Call().expect("a", "b", "c", "d")
    call.begin(2, 0)
    call.fail(2, 1, log, f"CalledProcessError in line 3:\nCommand '{COMMAND}' returned non-zero exit status 1.")
    call.finish(1, 5)
    call.log(level=logging.ERROR, msg="Exiting because a job execution failed. Look above for error messages")
    call.log("error", 9, logging.ERROR, msg="WorkflowError:\nAt least one job did not complete successfully.")
    assert call.lines == [
        f"leaklab: failed: b: the disk is full: free some (see {log})",
        "1 of 4  a: 0.0 s",
        "leaklab: 1 of 4 jobs failed, and 2 that wait for it did not run:",
        "  b: the disk is full: free some",
    ]
    assert call.shown == []


def test_a_job_that_is_tried_again_and_ends_well_has_not_failed(tmp_path):
    call = Call().expect("a", "b")
    call.fail(1, 1, tmp_path / "none.log")
    call.log(msg="Trying to restart job 1.")
    call.finish(1, 5)
    call.fail(2, 6, tmp_path / "none.log")
    call.log(level=logging.ERROR, msg="Exiting because a job execution failed. Look above for error messages")
    assert call.lines[1] == "leaklab: tried again: a (try 2)"
    assert call.lines[-1] == "leaklab: 1 of 2 jobs failed"


def test_each_failure_gets_the_status_of_its_own_command(tmp_path):
    """Two threads of Snakemake may say what their commands ended with before either says of which job it was."""
    call = Call().expect("a", "b")
    call.log("error", level=logging.ERROR, msg="Command 'another' returned non-zero exit status 137.")
    call.fail(2, 1, tmp_path / "none", f"Command '{COMMAND}' returned non-zero exit status 3.")
    assert "exit status 3" in call.lines[0]
    assert MEMORY not in call.lines[0]


def test_warnings_errors_and_what_is_ours_are_shown_and_talk_is_not():
    call = Call()
    call.log(msg="Building DAG of jobs...")
    call.log("run_info", msg="Job stats:")
    call.log(msg="Unlocked working directory.")
    call.log(msg="Nothing to be done (all requested files are present and up to date).")
    call.expect("a")
    call.log(msg="Job 3 has been submitted with SLURM jobid 7 (log: x).")
    call.log(level=logging.WARNING, msg="a warning")
    call.log(msg="leaklab: report: here")
    call.log("error", level=logging.ERROR, msg="WorkflowError:\nno such rule")
    call.log("group_error", level=logging.ERROR, msg="a group")
    call.log(msg=f"Complete log(s): {logging.os.getcwd()}/.snakemake/log/x.log")
    assert call.shown == [
        "Unlocked working directory.", "Nothing to be done (all requested files are present and up to date).",
        "a warning", "leaklab: report: here", "a group",
    ]  # fmt: skip
    assert call.lines == [
        "WorkflowError:\nno such rule", "leaklab: all that Snakemake said: .snakemake/log/x.log",
    ]  # fmt: skip


TRACEBACK = """Traceback (most recent call last):
  File "x.py", line 3, in f
    nme
NameError: name 'nme' is not defined
"""


@pytest.mark.parametrize(
    ("text", "message", "said"),
    [
        ("leaklab run_attack: no data: fetch it\n", "returned non-zero exit status 1.", "no data: fetch it"),
        ("leaklab run_attack: no data\nsome warning of a library\n", "", "no data"),
        (TRACEBACK, "returned non-zero exit status 1.", "NameError: name 'nme' is not defined"),
        ("Traceback\nKeyboardInterrupt\n", "returned non-zero exit status 130.", "it was interrupted"),
        ("", "returned non-zero exit status 3.", "it said nothing (exit status 3)"),
        (None, "", "no reason was said"),
        (None, "SLURM sbatch failed.\n more", "SLURM sbatch failed."),
        ("", "Command 'x' died with <Signals.SIGTERM: 15>.", "it said nothing (exit status 143)"),
        ("loss 0.2\n", "SLURM-job '3' failed, SLURM status is: 'TIMEOUT'. ", "loss 0.2 (Slurm says TIMEOUT)"),
    ],
)  # fmt: skip
def test_the_reason_is_the_line_that_says_it(tmp_path, text, message, said):
    log = tmp_path / "x.log"
    if text is not None:
        log.write_text(text)
    assert reason([log], message) == said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss 0.1\n", "Command 'x' returned non-zero exit status 137."),
        ("", "Command 'x' died with <Signals.SIGKILL: 9>."),
        ("", "SLURM-job '3' failed, SLURM status is: 'OUT_OF_MEMORY'. "),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=3.0.\n", ""),
        ("Traceback\nMemoryError\n", "returned non-zero exit status 1."),
    ],
)
def test_who_was_killed_hears_of_memory(tmp_path, text, message):
    log = tmp_path / "x.log"
    log.write_text(text)
    assert MEMORY in reason([log], message)
    assert "\n" not in reason([log], message)


def test_a_log_that_is_no_text_is_no_obstacle(tmp_path):
    log = tmp_path / "x.log"
    log.write_bytes(b"\xff\xfe\x00 ValueError\nKeyError: 'a'\n")
    assert reason([tmp_path, log]) == "KeyError: 'a'"


def test_time_left_is_said_as_roughly_as_it_is_known():
    assert [time_left(seconds) for seconds in (0, 59, 100, 3 * 3600)] == [
        "less than a minute left", "less than a minute left", "about 2 min left", "about 3 h left",
    ]  # fmt: skip
