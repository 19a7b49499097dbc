"""How Snakemake asks Slurm for the state of its jobs: with accounting or without."""

import subprocess

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
    if command != "sacct":
        return f"{command} is asked for the state of jobs, as slurm-status-command says"
    if accounting_works():
        return "sacct is asked for the state of jobs: the accounting database answers"
    settings.status_command = "squeue"  # type: ignore[attr-defined]
    return "squeue is asked for the state of jobs: sacct does not work here (no accounting database)"
