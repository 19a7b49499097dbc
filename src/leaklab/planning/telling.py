"""How the workflow and the console of its call meet: one says what each job is, the other what the user is told."""

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.planning.job_words import JobWords
from leaklab.planning.reasons import reason

SILENT = "it said nothing, as where it is killed: memory may have run out"
"""Of a job whose log is empty, where nobody says how it ended."""


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


def lines_of_failures(jobs: Iterable[Any], words: Callable[[], JobWords]) -> list[str]:
    """Return a line for each job that failed, for a call whose console tells none.

    Args:
        jobs: of Snakemake, that failed.
        words: returns what tells them in words.
    """
    return [f"leaklab: failed: {_named(job, words)}: {_why(job)}" for job in jobs]


def _named(job: Any, words: Callable[[], JobWords]) -> str:
    with suppress(Exception):  # the reason is worth more than its words
        return words().of(job.rule.name, dict(job.wildcards_dict)).words or str(job.rule.name)
    return str(job.rule.name)


def _why(job: Any) -> str:
    logs = [Path(str(path)) for path in job.log]
    return f"{reason(logs, SILENT)}{f' (see {logs[0]})' if logs else ''}"
