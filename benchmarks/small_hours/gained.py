"""What the hours would be by the code of today, if jobs gained what the job like them gained that was run by two codes.

Like it is a job of the same rule, model and method that was recorded before the older of the two codes.
"""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from leaklab.records.errors import UserError
from small_hours.recorded import RECORD, Spent
from small_hours.tables import method_of, model_of

Lines = list[dict[str, Any]]


def committed(commit: str) -> datetime:
    """Return when a commit was made.

    Raises:
        UserError: this checkout does not have it.
    """
    command = ["git", "show", "-s", "--format=%cI", commit.removesuffix("-dirty")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"the commit {commit} that a job was compared with is not here: run git fetch --unshallow")
    return datetime.fromisoformat(done.stdout.strip())


def gained(
    spent: Iterable[Spent],
    records: Mapping[str, Mapping[str, Any]],
    again: Lines,
    when: Callable[[str], datetime] = committed,
) -> Lines:
    """Return a line for all jobs, then one for each rule, model and method of which a job was run by two codes.

    Args:
        spent: all jobs.
        records: path of a record -> its content; a job without one counts as older than any code.
        again: lines of ``again.compared``; of several in a group the least gain counts.
        when: a commit was made.
    """
    spent = list(spent)
    groups = {f"{one.job.spec.stage}/{one.job.name}": _group(one) for one in spent}
    known: dict[str, tuple[float, datetime]] = {}
    for line in again:
        if line["job"] in groups:
            gain = float(line["times_faster"]), when(line["commit_before"])
            known[groups[line["job"]]] = min(gain, known.get(groups[line["job"]], gain))
    own: dict[str, dict[str, Any]] = {}
    for one in spent:
        group = _group(one)
        gain, before = known.get(group, (1.0, None))
        fits = before is not None and _recorded(one, records) < before
        for name in ("all", *([group] if fits else [])):
            row = own.setdefault(name, {"name": name, "jobs": 0, "hours": 0.0, "hours_then": 0.0})
            row["jobs"] += 1
            row["hours"] += one.seconds / 3600
            row["hours_then"] += one.seconds / 3600 / (gain if fits else 1.0)
    return sorted(own.values(), key=lambda row: (row["name"] != "all", -row["hours"]))


def _group(one: Spent) -> str:
    return ", ".join(part for part in (one.job.spec.rule, model_of(one.job.spec), method_of(one.job.spec)) if part)


def _recorded(one: Spent, records: Mapping[str, Mapping[str, Any]]) -> datetime:
    record = records.get(f"{one.job.folder.as_posix()}/{RECORD}")
    return datetime.fromisoformat(record["started"]) if record else datetime.min.replace(tzinfo=UTC)
