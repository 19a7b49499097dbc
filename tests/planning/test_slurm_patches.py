"""Snakemake asks Slurm by the command that works here; what its executor does by itself is watched."""

import asyncio
import inspect
import logging
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as executor
import yaml

from leaklab.planning.slurm_patches import accounting_works, choose_status_command, name_jobs
from leaklab.records.errors import UserError


@pytest.fixture(autouse=True)
def plugin(monkeypatch):
    """All commands of Slurm are on the path, for the executor."""
    monkeypatch.setattr(executor, "is_query_tool_available", lambda tool: True)
    monkeypatch.setattr(executor, "query_job_status", executor.query_job_status)


def settings_with(command):
    return executor.ExecutorSettings(status_command=command)


@pytest.fixture
def sacct(tmp_path, monkeypatch):
    """Put a command in the place of sacct; None for no such command."""

    def put(text):
        if text is not None:
            (tmp_path / "sacct").write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / "sacct").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))  # Slurm may be installed here

    return put


@pytest.mark.parametrize(
    ("text", "works"),
    [("exit 0", True), ("echo 'Slurm accounting storage is disabled' >&2; exit 1", False), (None, False)],
)
def test_squeue_takes_over_where_accounting_does_not_work(sacct, text, works):
    sacct(text)
    assert accounting_works() == works
    settings = settings_with("sacct")
    said = choose_status_command(settings)
    assert settings.status_command == ("sacct" if works else "squeue")
    assert said.startswith(f"{settings.status_command} is asked for the state of jobs")
    assert "\n" not in said


@pytest.mark.parametrize("settings", [None, SimpleNamespace(), SimpleNamespace(status_command=None)])
def test_other_executors_are_left_alone(sacct, settings):
    sacct("exit 1")
    before = vars(settings).copy() if settings else None
    assert choose_status_command(settings) == ""
    assert (vars(settings) if settings else None) == before


def test_a_chosen_squeue_is_left_alone_and_named(sacct):
    sacct("exit 0")
    settings = settings_with("squeue")
    assert choose_status_command(settings) == "squeue is asked for the state of jobs, as slurm-status-command says"
    assert settings.status_command == "squeue"


@pytest.mark.parametrize("command", ["sacct", "squeue"])
@pytest.mark.parametrize("works", [True, False])
def test_the_executor_never_turns_to_a_sacct_that_does_not_work(sacct, command, works):
    """It would where the controller is away for a moment, and ask it for as long as it has tries."""
    sacct(f"exit {int(not works)}")
    assert executor.is_query_tool_available("sacct")
    choose_status_command(settings_with(command))
    assert executor.is_query_tool_available("sacct") == works
    assert 'is_query_tool_available("sacct")' in inspect.getsource(executor.Executor.check_active_jobs)


def test_a_cancelled_job_is_known_as_one(sacct):
    """The states that a sacct of Slurm 22.05 prints for a job that ended, and for one that a user cancelled."""
    sacct("printf '12|COMPLETED\\n13|CANCELLED by 1000\\n14|OUT_OF_MEMORY\\n'")

    def states():
        return asyncio.run(executor.query_job_status("sacct", logging.getLogger("test")))[0]

    assert states()["13"] == "CANCELLED by 1000"
    assert '"CANCELLED",' in inspect.getsource(executor.Executor.check_active_jobs)
    choose_status_command(settings_with("sacct"))
    assert states() == {"12": "COMPLETED", "13": "CANCELLED", "14": "OUT_OF_MEMORY"}
    sacct("exit 1")
    assert states() is None


def test_an_hour_without_an_answer_is_waited_for():
    """After the last query without an answer the executor forgets all its jobs, and the call never ends."""
    profile = yaml.safe_load((Path(__file__).parents[2] / "profiles/slurm/profile.yaml").read_text(encoding="utf-8"))
    assert profile["slurm-status-attempts"] / profile["max-status-checks-per-second"] >= 3600


@pytest.fixture
def naming(monkeypatch):
    """What names jobs and asks for them, which other tests must find as it was."""
    for name in ("get_submit_command", "query_job_status_sacct", "query_job_status_squeue"):
        monkeypatch.setattr(executor, name, getattr(executor, name))


def submitted():
    """Return the command by which the executor submits a job."""
    job = SimpleNamespace(resources=Resources(), threads=1, name="run_attack", is_group=lambda: False)
    params = {
        "run_uuid": "1b2c",
        "slurm_logfile": "x",
        "comment_str": "c",
        "account": "",
        "partition": "",
        "workdir": ".",
    }
    return executor.get_submit_command(job, params, settings=None, failed_nodes=set())


class Resources(dict):
    __getattr__ = dict.get


def test_slurm_lists_show_what_a_job_is(naming):
    assert "--job-name 1b2c" in submitted()  # upstream
    name_jobs(settings_with("squeue"), lambda job: f"lrp-table1-{job.name}")
    assert "--job-name lrp-table1-run_attack" in submitted()
    for ask in (executor.query_job_status_sacct, executor.query_job_status_squeue):
        assert f"--user {os.getuid()}" in ask("1b2c")
        assert "--name" not in ask("1b2c")
    names = inspect.getsource(executor.Executor.check_active_jobs)
    assert "query_job_status_sacct(self.run_uuid)" in names
    assert "query_job_status_squeue(self.run_uuid)" in names


def test_a_job_without_words_keeps_the_name_of_its_call(naming):
    def none(job):
        raise UserError("no item asks for it")

    name_jobs(settings_with("squeue"), none)
    assert "--job-name 1b2c" in submitted()


def test_other_executors_and_the_efficiency_report_keep_their_names(naming):
    name_jobs(None, lambda job: "x")
    name_jobs(executor.ExecutorSettings(status_command="sacct", efficiency_report=True), lambda job: "x")
    assert "--job-name 1b2c" in submitted()
    assert "--name 1b2c" in executor.query_job_status_sacct("1b2c")
