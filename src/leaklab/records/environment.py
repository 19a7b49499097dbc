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
