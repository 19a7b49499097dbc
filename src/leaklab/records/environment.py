"""Settings that reach a job through its environment: they change how it works, never what it finds."""

import os

from leaklab.records.errors import UserError

CHECKPOINT_SECONDS = "LEAKLAB_CHECKPOINT_SECONDS"
DEFAULT_CHECKPOINT_SECONDS = 120.0


def checkpoint_seconds() -> float:
    """Return the least time between two checkpoints of a job, in seconds.

    Raises:
        UserError: the variable is no number from 0 on.
    """
    text = os.environ.get(CHECKPOINT_SECONDS, str(DEFAULT_CHECKPOINT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UserError(f"{CHECKPOINT_SECONDS} is {text!r}: give a number of seconds from 0 on")
    return seconds


# Durations as a reader takes them in at a glance.

HOUR, DAY = 3600, 86_400


def duration(seconds: float | None) -> str:
    """Return seconds as e.g. ``0.4 s``, ``3 min 20 s``, ``2 h 05 min`` or ``597 days`` (from two days on)."""
    if seconds is None:
        return "not measured"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 2 * DAY:
        return f"{whole // HOUR} h {whole % HOUR // 60:02d} min"
    return f"{round(whole / DAY):,} days"
