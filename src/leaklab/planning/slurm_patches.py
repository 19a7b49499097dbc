"""All mends of Snakemake's executor for Slurm; each says what upstream does by itself, as in ``snakemake_patches.py``.

They are for snakemake-executor-plugin-slurm 2.8. The tests that watch upstream fail when a mend is not needed any more,
or takes hold of nothing.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SACCT_SECONDS = 20


def accounting_works() -> bool:
    """Return whether ``sacct`` answers; where it has no database behind it, it says so and fails."""
    try:
        asked = subprocess.run(
            ["sacct", "--noheader", "--allocations"], capture_output=True, timeout=SACCT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def choose_status_command(settings: object) -> str:
    """Let Snakemake poll Slurm with ``squeue`` where ``sacct`` does not work.

    Upstream: the executor asks ``sacct`` if it is installed, and waits forever for an answer where no database is
    behind it. Reported in snakemake-executor-plugin-slurm issue 38, closed with a setting that the user has to know;
    seen in 2.8.

    Args:
        settings: of Snakemake's executor; those of other executors, and a command that the user chose, are left alone.

    Returns:
        which command is asked and why, for the user; empty where no Slurm is asked.
    """
    command = getattr(settings, "status_command", None)
    if command is None:
        return ""
    works, executor = accounting_works(), sys.modules[type(settings).__module__]
    _know_cancelled_jobs(executor)
    if not works:
        _keep_from_sacct(executor)
    if command != "sacct":
        return f"{command} is asked for the state of jobs, as slurm-status-command says"
    if works:
        return "sacct is asked for the state of jobs: the accounting database answers"
    settings.status_command = "squeue"  # type: ignore[attr-defined]
    return "squeue is asked for the state of jobs: sacct does not work here (no accounting database)"


def _keep_from_sacct(executor: Any) -> None:
    """Tell the executor that there is no ``sacct``.

    Upstream: where the controller does not answer ``squeue`` for a moment the executor takes ``sacct`` after all, and
    asks it, which never answers, until its tries are used up. Not reported, seen in 2.8.
    """
    found = executor.is_query_tool_available
    executor.is_query_tool_available = lambda tool: tool != "sacct" and found(tool)


def _know_cancelled_jobs(executor: Any) -> None:
    """Let the executor see that a job was cancelled.

    Upstream: ``sacct`` says by whom (``CANCELLED by 1000``), which is none of the states that the executor knows: it
    would wait for the job forever. Not reported, seen in 2.8; the profile before it was mended in pull request 22 of
    Snakemake-Profiles/slurm.
    """
    asked = executor.query_job_status

    async def states(*arguments: Any) -> Any:
        found, seconds = await asked(*arguments)
        return found and {job: state.partition(" ")[0] for job, state in found.items()}, seconds

    executor.query_job_status = states


def name_jobs(settings: object, name_of: Callable[[Any], str]) -> None:
    """Let Slurm's lists show what each job is.

    Upstream: all jobs of a call have one name, a UUID, as that is how the executor asks for them. Reported
    in snakemake-executor-plugin-slurm issues 34 and 83, closed with a comment in place of a name; seen in 2.8. Here it
    asks for the user's jobs, and looks at its own. With its efficiency report, which needs the UUID, all stays.

    Args:
        settings: of Snakemake's executor; those of other executors are left alone.
        name_of: returns the name of a job of Snakemake's, without spaces.
    """
    executor: Any = sys.modules[type(settings).__module__]
    if getattr(settings, "status_command", None) is None or getattr(settings, "efficiency_report", False):
        return
    submit = executor.get_submit_command

    def named(job: Any, params: dict[str, Any], *arguments: Any, **more: Any) -> Any:
        with suppress(Exception):  # a job without words keeps the UUID
            params = {**params, "run_uuid": name_of(job)}
        return submit(job, params, *arguments, **more)

    executor.get_submit_command = named
    for ask in ("query_job_status_sacct", "query_job_status_squeue"):
        setattr(executor, ask, _of_user(getattr(executor, ask)))


def _of_user(ask: Callable[[str], str]) -> Callable[[str], str]:
    return lambda run: ask(run).replace(f"--name {run}", f"--user {os.getuid()}")
