"""The logger plug-in: Snakemake finds it, it tells jobs, and whatever fails in it ends no call."""

import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from leaklab.planning.job_words import Told
from leaklab.planning.telling import give_words, lines_of_failures, tells_failures
from snakemake_logger_plugin_leaklab import LogHandler

LIGHT = """
import sys
import snakemake_logger_plugin_leaklab
print([name for name in sys.modules if name.partition(".")[0] in ("torch", "pandas", "numpy", "leaklab", "snakemake")])
"""


def handler(quiet=(), dryrun=False, verbose=False):
    """Return the handler of a call."""
    asked = SimpleNamespace(
        nocolor=True, stdout=dryrun, quiet=set(quiet), show_failed_logs=True, debug_dag=False, verbose=verbose,
        dryrun=dryrun, printshellcmds=False,
    )  # fmt: skip
    return LogHandler(asked, None)


def record(event=None, level=logging.INFO, msg="", **said):
    made = logging.LogRecord("snakemake", level, __file__, 1, msg, None, None)
    vars(made).update(said, **({"event": event} if event else {}))
    return made


def one_job(of):
    of.console.expect({1: Told("lrp/table1: training", "n", "train", 10)}, 0)
    return of


def test_snakemake_finds_it_by_the_name_of_its_package():
    assert LoggerPluginRegistry().get_plugin("leaklab").log_handler is LogHandler


def test_it_costs_every_process_of_snakemake_next_to_nothing():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_tells_a_job_on_stderr_as_snakemake_hands_it_over(capsys):
    one = one_job(handler())
    one.emit(record(LogEvent.JOB_FINISHED, job_id=1))
    said = capsys.readouterr()
    assert said.err == "1 of 1  lrp/table1: training: 0.0 s\n"
    assert said.out == ""


def test_warnings_are_shown_as_by_snakemake(capsys):
    one_job(handler()).emit(record(level=logging.WARNING, msg="look here"))
    assert capsys.readouterr().err == "look here\n"


@pytest.mark.parametrize("more", [{"dryrun": True}, {"verbose": True}])
def test_dry_runs_and_calls_that_ask_for_all_are_shown_as_by_snakemake(more, capsys):
    one = handler(**more)
    give_words([one], [], lambda: pytest.fail("nobody asks for words"))
    assert not tells_failures([one])
    one.emit(record(msg="Building DAG of jobs..."))
    said = capsys.readouterr()
    assert (said.out or said.err) == "Building DAG of jobs...\n"
    assert bool(said.out) == bool(more.get("dryrun"))


def test_quiet_all_says_nothing(capsys):
    from snakemake.settings.enums import Quietness

    one = one_job(handler(quiet={Quietness.ALL}))
    one.emit(record(LogEvent.JOB_FINISHED, job_id=1))
    one.emit(record(level=logging.ERROR, msg="Exiting because a job execution failed."))
    one.emit(record(LogEvent.JOB_ERROR, logging.ERROR, jobid=1, log=[]))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert not tells_failures([one])


def test_quiet_about_rules_leaves_failures(capsys):
    from snakemake.settings.enums import Quietness

    one = one_job(handler(quiet={Quietness.RULES, Quietness.PROGRESS}))
    one.emit(record(LogEvent.JOB_FINISHED, job_id=1))
    assert capsys.readouterr().err == ""
    one.emit(record(LogEvent.JOB_ERROR, logging.ERROR, jobid=1, log=[]))
    assert capsys.readouterr().err.startswith("leaklab: failed: lrp/table1: training")
    assert tells_failures([one])


def test_a_console_that_fails_is_said_once_and_the_call_goes_on_as_snakemake_tells_it(capsys):
    one = one_job(handler())
    one.emit(record(LogEvent.JOB_FINISHED))  # without its job
    one.emit(record(LogEvent.JOB_FINISHED, job_id=1, msg="Finished jobid: 1"))
    said = capsys.readouterr().err
    assert said.count("leaklab: jobs are told as Snakemake does, as the console failed: KeyError('job_id')") == 1
    assert "Finished jobid: 1" in said
    assert not tells_failures([one])


def test_words_that_fail_are_said_once_and_the_call_goes_on(capsys):
    one = handler()
    give_words([one, SimpleNamespace()], [], lambda: {}["no plan"])
    assert (
        capsys.readouterr().err
        == "leaklab: jobs are told as Snakemake does, as their words failed: KeyError('no plan')\n"
    )
    one.emit(record(LogEvent.JOB_FINISHED, job_id=1, msg="Finished jobid: 1"))
    assert "Finished jobid: 1" in capsys.readouterr().err


def test_nobody_reading_ends_no_call(monkeypatch):
    def closed(*_):
        raise BrokenPipeError

    one = one_job(handler())
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=closed, flush=closed))
    one.emit(record(LogEvent.JOB_FINISHED, job_id=1))


def failed(*logs, rule="train_federated"):
    return SimpleNamespace(rule=SimpleNamespace(name=rule), wildcards_dict={"run": "r"}, log=list(logs))


def test_without_a_console_each_failed_job_is_told_with_its_reason(tmp_path):
    log, empty = tmp_path / "a.log", tmp_path / "b.log"
    log.write_text("Traceback (most recent call last):\nNameError: name 'gradeint' is not defined\n")
    empty.touch()
    words = SimpleNamespace(of=lambda rule, wildcards: Told("lrp/table1: training", "n", "train", 10))
    assert lines_of_failures([failed(log), failed(empty), failed()], lambda: words) == [
        f"leaklab: failed: lrp/table1: training: NameError: name 'gradeint' is not defined (see {log})",
        f"leaklab: failed: lrp/table1: training: it said nothing, as where it is killed: memory may have run out "
        f"(see {empty})",
        "leaklab: failed: lrp/table1: training: it said nothing, as where it is killed: memory may have run out",
    ]


def test_without_words_the_rule_and_the_reason_are_told(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("leaklab train_federated: no\n")
    told = lines_of_failures([failed(log)], lambda: 1 / 0)
    assert told == [f"leaklab: failed: train_federated: no (see {log})"]
