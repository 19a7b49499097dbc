"""How Snakemake asks Slurm for the state of its jobs: with accounting or without."""

import subprocess
import sys
from typing import Any

SECONDS = 20


def accounting_works() -> bool:
    """Return whether ``sacct`` answers; where it has no database behind it, it says so and fails."""
    try:
        asked = subprocess.run(
            ["sacct", "--noheader", "--allocations"], capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def choose_status_command(settings: object) -> str:
    """Let Snakemake poll with ``squeue`` where ``sacct`` does not work: it would wait forever for an answer.

    Args:
        settings: of Snakemake's executor; those of other executors, and a command that the user chose, are left alone.

    Returns:
        which command is asked and why, for the user; empty where no Slurm is asked.
    """
    command = getattr(settings, "status_command", None)
    if command is None:
        return ""
    works = accounting_works()
    _know_cancelled_jobs(settings)
    if not works:
        _keep_from_sacct(settings)
    if command != "sacct":
        return f"{command} is asked for the state of jobs, as slurm-status-command says"
    if works:
        return "sacct is asked for the state of jobs: the accounting database answers"
    settings.status_command = "squeue"  # type: ignore[attr-defined]
    return "squeue is asked for the state of jobs: sacct does not work here (no accounting database)"


def _keep_from_sacct(settings: object) -> None:
    """Tell the executor that there is no ``sacct``.

    Where the controller does not answer for a moment it would take ``sacct`` after all, and ask it, which never
    answers, until its tries are used up.
    """
    executor = _executor_of(settings)
    found = executor.is_query_tool_available
    executor.is_query_tool_available = lambda tool: tool != "sacct" and found(tool)


def _know_cancelled_jobs(settings: object) -> None:
    """Let the executor see that a job was cancelled.

    ``sacct`` says by whom (``CANCELLED by 1000``), which is none of the states that the executor (2.8) knows: it would
    wait for the job forever.
    """
    executor = _executor_of(settings)
    asked = executor.query_job_status

    async def states(*arguments: Any) -> Any:
        found, seconds = await asked(*arguments)
        return found and {job: state.partition(" ")[0] for job, state in found.items()}, seconds

    executor.query_job_status = states


def _executor_of(settings: object) -> Any:
    return sys.modules[type(settings).__module__]
