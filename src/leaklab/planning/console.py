"""What a call tells the user while it runs: a line for each job that has ended, failures with their reason, the rest.

It hears the records that Snakemake logs, which all stay in Snakemake's own log file. A record that it neither tells nor
leaves out is shown as Snakemake would.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.planning.job_words import Told
from leaklab.planning.pace import Pace
from leaklab.planning.reasons import STATUS, reason
from leaklab.records.environment import duration

BEFORE = (
    "Building DAG", "Assuming unrestricted", "Using shell", "Group jobs:", "Conda env", "Singularity containers",
    "host: ", "SLURM run ID", "Migrating", "Loading trusted",
)  # fmt: skip
"""How lines begin that say nothing to the user, of those before the first job."""
OPENING = ("workflow_started", "run_info", "resources_info")
WITHIN = ("leaklab: ", "Will exit after", "Shutting down", "Nothing to be done")
"""How lines begin that do, of those without an event of their own after it."""
LOG = "Complete log(s): "
AGAIN = re.compile(r"Trying to restart job (\d+)")
FAILED, ENDED = "Exiting because a job execution failed", "At least one job did not complete"
MOST_FAILURES = 20


class Console:
    """The lines of a call.

    Args:
        show: shows the user a line.
        tells_jobs: whether jobs that ended well are told, too.
    """

    def __init__(self, show: Callable[[str], None], tells_jobs: bool = True) -> None:
        self._show, self._tells_jobs = show, tells_jobs
        self._told: Mapping[int, Told] | None = None
        self._pace = Pace({}, 0.0)
        self._done: set[int] = set()
        self._failed: dict[int, str] = {}
        self._tries: dict[int, int] = {}
        self._errors: list[str] = []
        self._just_failed = False
        self._away: dict[int, list[str]] = {}  # outputs of jobs on other machines, which may have waited there

    def expect(self, jobs: Mapping[int, Told], now: float) -> None:
        """Be told what is told of each job, before the first one begins."""
        self._pace = Pace({number: (one.kind, one.seconds) for number, one in jobs.items()}, now)
        self._told = jobs

    def hear(self, event: str, level: int, at: float, said: Mapping[str, Any]) -> bool:
        """Hear a record; return whether it is dealt with, or else has to be shown as it is.

        Args:
            event: of Snakemake, such as ``job_finished``; empty for a line without one.
            level: as Python's ``logging`` has it.
            at: when it was made, in seconds.
            said: all that the record has.
        """
        if self._told is None:
            return event in OPENING or (not event and str(said.get("msg")).startswith(BEFORE))
        known: dict[str, Callable[[Mapping[str, Any], float], None]] = {
            "job_info": self._begins,
            "job_finished": self._ends,
            "job_error": self._fails,
            "error": self._remember,
        }
        if event in known:
            known[event](said, at)
            return True
        return self._is_told(str(said.get("msg")), level) if not event else event not in ("group_error", "shellcmd")

    def _begins(self, said: Mapping[str, Any], at: float) -> None:
        if said.get("local", True):
            self._pace.begins(said["jobid"], at)
        else:
            self._away[said["jobid"]] = list(map(str, said.get("output") or ()))

    def _ends(self, said: Mapping[str, Any], at: float) -> None:
        job = said["job_id"]
        took = self._pace.ends(job, at, recorded_seconds(self._away.pop(job, ())))
        self._failed.pop(job, None)
        if job not in (self._told or ()):  # a target, which only names files
            return
        self._done.add(job)
        words, everything = self._words(job), len(self._told or ())
        if not words or not self._tells_jobs:
            return
        left = self._pace.left(at) if len(self._done) < everything else None
        count = f"{len(self._done):>{len(str(everything))}} of {everything}"
        self._just_failed = False
        self._show(f"{count}  {words}: {duration(took)}{'' if left is None else f', {time_left(left)}'}")

    def _fails(self, said: Mapping[str, Any], at: float) -> None:
        job, command = said["jobid"], said.get("shellcmd") or ""
        own = next((text for text in self._errors if command and command in text), "")
        self._errors = [text for text in self._errors if text != own]
        logs = [Path(str(path)) for path in said.get("log") or ()]
        why = reason(logs, own or str(said.get("rule_msg") or ""))
        self._pace.gives_up(job)
        self._failed[job] = f"{self._words(job) or self._name(job, said)}: {why}"
        self._show(f"leaklab: failed: {self._failed[job]}{f' (see {logs[0]})' if logs else ''}")
        self._just_failed = True

    def _remember(self, said: Mapping[str, Any], at: float) -> None:
        """Keep what Snakemake says of a command that failed until it says of which job that was; show the rest."""
        text = str(said.get("msg"))
        if STATUS.search(text):
            self._errors.append(text)
        elif not (ENDED in text and self._failed):
            self._show(text)

    def _is_told(self, text: str, level: int) -> bool:
        """Deal with a line that has no event of its own; return whether that was done."""
        if match := AGAIN.match(text):
            job = int(match[1])
            self._tries[job] = self._tries.get(job, 1) + 1
            self._failed.pop(job, None)
            self._show(f"leaklab: tried again: {self._words(job) or job} (try {self._tries[job]})")
            return True
        if text.startswith(FAILED):
            self._sum_up()
            return True
        if text.startswith(LOG):
            self._show(f"leaklab: all that Snakemake said: {_from_here(text.removeprefix(LOG))}")
            return True
        important = level > 20 or text.startswith(WITHIN)  # 20: logging.INFO
        return not important

    def _sum_up(self) -> None:
        everything = len(self._told or ())
        never = everything - len(self._done) - len(self._failed)
        behind = f", and {never} that wait for {'it' if len(self._failed) == 1 else 'them'} did not run"
        alone = len(self._failed) == 1 and self._just_failed
        self._show(
            f"leaklab: {len(self._failed)} of {everything} jobs failed{behind if never else ''}{'' if alone else ':'}"
        )
        if alone:
            return
        for line in list(self._failed.values())[:MOST_FAILURES]:
            self._show(f"  {line}")
        if len(self._failed) > MOST_FAILURES:
            self._show(f"  and {len(self._failed) - MOST_FAILURES} more, see above")

    def _words(self, job: int) -> str:
        told = (self._told or {}).get(job)
        return told.words if told else ""

    def _name(self, job: int, said: Mapping[str, Any]) -> str:
        told = (self._told or {}).get(job)
        return told.name if told else str(said.get("rule_name") or f"job {job}")


def recorded_seconds(outputs: Iterable[str]) -> float | None:
    """Return the seconds that the record among a job's outputs says it took; None where there is none."""
    for path in (Path(path) for path in outputs if path.endswith(".json")):
        with suppress(OSError, ValueError, AttributeError, TypeError):
            return float(json.loads(path.read_text(encoding="utf-8")).get("wall_seconds"))
    return None


def time_left(seconds: float) -> str:
    """Return a time that is guessed, as roughly as it is: ``about 4 min left``."""
    if seconds < 60:
        return "less than a minute left"
    minutes = round(seconds / 60)
    return f"about {f'{minutes} min' if minutes < 120 else f'{round(minutes / 60)} h'} left"


def _from_here(path: str) -> str:
    """Return a path as the user would write it in this folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
