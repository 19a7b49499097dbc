"""How the workflow and the console of its call meet: one says what each job is, the other what the user is told."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from leaklab.planning.job_words import JobWords


def give_words(handlers: Iterable[Any], jobs: Iterable[Any], words: Callable[[], JobWords]) -> None:
    """Let each console among Snakemake's log handlers know the jobs of the call; one that cannot tells as Snakemake.

    Args:
        handlers: plug-ins of Snakemake; those of others have no ``console``.
        jobs: of Snakemake, that the call runs.
        words: returns what tells them in words; not asked without a console.
    """
    consoles = [console for one in handlers if (console := getattr(one, "console", None)) is not None]
    if not consoles:
        return
    try:
        told = words().tell((job.jobid, job.rule.name, dict(job.wildcards_dict)) for job in jobs)
    except Exception as error:  # noqa: BLE001  the call is worth more than its words
        print(f"leaklab: jobs are told as Snakemake does, as their words failed: {error!r}", file=sys.stderr)
        return
    for console in consoles:
        console.expect(told, time.time())


def tells_failures(handlers: Iterable[Any]) -> bool:
    """Whether a console among Snakemake's log handlers tells the user why jobs failed."""
    return any(getattr(one, "console", None) is not None and not one.silent for one in handlers)
