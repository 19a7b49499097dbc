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
        settings: of Snakemake's executor; those of other executors are left alone.

    Returns:
        what was changed, for the user; empty if nothing.
    """
    if getattr(settings, "status_command", None) != "sacct" or accounting_works():
        return ""
    settings.status_command = "squeue"  # type: ignore[attr-defined]
    return "sacct does not work here (no accounting database): squeue is asked for the state of jobs"
