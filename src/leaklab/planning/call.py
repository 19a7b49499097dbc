"""One call of Snakemake: what was asked for, what it plans, and the line with which it begins."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from leaklab.items.items import Item
from leaklab.planning.devices import Device
from leaklab.planning.missing import Missing, find_missing, found_before, pass_on, without_missing
from leaklab.planning.outputs import idle_defenses, jobs_behind, nothing_done, outputs_of_scale, records_behind
from leaklab.planning.pieces import Cut
from leaklab.planning.plan import KnownPlan, Plan, build_plan
from leaklab.records.config import SCALES, Scale

VARIABLE = "LEAKLAB_SCALES"
OF_SCALE = re.compile(rf"(?:results|figures)/({'|'.join(SCALES)})/(?:([^/]+)/([^/]+?)\.[a-z]+$)?")


class Call:
    """The plan of a call, the same in the process that the user started and in those of its jobs.

    Attributes:
        items: all items.
        asked: scale -> the items that were asked for by file; None where the whole scale was.
    """

    def __init__(self, items: Mapping[str, Item], scale: Scale, main: bool, words: Iterable[str] = ()) -> None:
        """Plan the scales that are probably asked for: as if all data were there, or as the user's process said.

        Snakemake says what is asked for only when all files are read, and what is wrong with an item should be said
        before, in one line.

        Args:
            items: all items.
            scale: what a call without a target asks for.
            main: whether this is the process that the user started, which finds out what the others are told.
            words: of the command line; those that name a scale are probably targets.

        Raises:
            UserError: an item is wrong.
        """
        self._main, self._scale = main, scale
        self.items = items if main else without_missing(items, found_before())
        self.asked: dict[Scale, set[str] | None] = {}
        targets = [word for word in words if _scale_of(word, scale)[1]]
        told_scales = tuple(json.loads(os.environ.get(VARIABLE) or json.dumps(SCALES)))
        self._scales: tuple[Scale, ...] = scales_of(targets, scale) if main else told_scales
        self._everything = KnownPlan.of(build_plan(self.items, self._scales))

    def plan(self, targets: Iterable[object]) -> Plan:
        """Return the plan of the scales that are asked for, without what cannot run for want of data.

        Args:
            targets: what the user asked for; nothing means the configured scale. A file that belongs to no scale may be
                of any.

        Raises:
            UserError: an item is wrong, or see ``find_missing``.
        """
        if not self._main:
            return self._everything
        named = [str(target) for target in targets]
        self.asked, scales = asked(named, self._scale), scales_of(named, self._scale)
        os.environ[VARIABLE] = json.dumps(scales)
        same = scales == self._scales
        everything = self._everything if same else KnownPlan.of(build_plan(self.items, scales))
        missing: Missing = {}
        for scale in self.asked:
            keys = [item.key for item in self._wanted(everything, scale)]
            missing |= find_missing(everything, scale, keys)
        pass_on(missing)
        return everything.with_items(without_missing(self.items, missing), scales) if missing else everything

    def opening_line(self, plan: Plan, device: Device | None = None) -> str:
        """Return scale, jobs, estimated hours on the device and what is missing."""
        lines = (self._line(plan, scale, device or Device()) for scale in self.asked)
        return "; ".join(lines) or "files that belong to no scale"

    def closing_lines(self, plan: Plan) -> list[str]:
        """Return a line for each defense behind the asked items that does nothing, whatever their figures show."""
        jobs = {job.folder: job for scale in self.asked for job in jobs_behind(plan, scale, self._wanted(plan, scale))}
        return [nothing_done(idle) for idle in idle_defenses(jobs.values())]

    def _wanted(self, plan: Plan, scale: Scale) -> list[Item]:
        keys = self.asked[scale]
        if keys is None:
            return plan.ready(scale)
        return [plan.items[key] for key in sorted(keys) if (scale, key) in plan.runs]

    def _line(self, plan: Plan, scale: Scale, device: Device) -> str:
        items, whole = self._wanted(plan, scale), self.asked[scale] is None
        jobs = jobs_behind(plan, scale, items)
        outputs = outputs_of_scale(plan, scale) if whole else records_behind(plan, scale, items)
        # no record is read: a damaged one is for the job that needs it to say
        waiting = [job for job in jobs if not (job.folder / "run.json").is_file()]
        hours = sum(device.seconds(job.spec) for job in waiting) / 3600
        pieces = sum(Cut.of(job, device).more_jobs for job in waiting)
        changes = [item.scales[scale] for item in plan.items.values() if scale in item.scales]
        missing = sorted({name for change in changes for name in change.missing})
        unit = "hours of one GPU" if device.kind == "cuda" else "CPU hours"
        what = f"scale {scale}" if whole else f"of scale {scale} {', '.join(item.key for item in items) or 'nothing'}"
        amount = f"{len(outputs) + pieces} jobs, {_to_do(outputs, pieces)}, at most {hours:,.1f} {unit}"
        return f"{what}: {amount}; {_data(missing)}"


def asked(targets: Iterable[str], configured: Scale) -> dict[Scale, set[str] | None]:
    """Return scale -> items that the targets name, None for all of the scale."""
    found: dict[Scale, set[str] | None] = {}
    for target in targets or [configured]:
        match, scale = _scale_of(target, configured)
        if scale is None:
            continue
        known = found.get(scale, set())
        of_item = match is not None and match[3] and match[2] not in ("report", "provenance")
        found[scale] = {*known, f"{match[2]}/{match[3]}"} if match and of_item and known is not None else None
    return found


def scales_of(targets: Iterable[str], configured: Scale) -> tuple[Scale, ...]:
    """Return the scales that have to be planned: those that are asked for, and all where a file may be of any.

    The report of a scale shows every item's state at each; its job plans the others in a process of its own.
    """
    named = list(targets) or [configured]
    found = asked(named, configured)
    free = any(_scale_of(target, configured)[1] is None for target in named)
    return SCALES if free else tuple(scale for scale in SCALES if scale in found)


def _scale_of(target: str, configured: Scale) -> tuple[re.Match[str] | None, Scale | None]:
    """Return what the name of a target says of paper and item, and its scale if it has one."""
    name = configured if target == "default" else target
    match = OF_SCALE.match(name)
    return match, next((scale for scale in SCALES if scale == (match[1] if match else name)), None)


def said_by_failed_steps(since: float, logs: Path = Path("logs")) -> list[str]:
    """Return the last line of each step's log that ended with a message for the user, since a time (s since 1970)."""
    said = []
    for path in sorted(logs.rglob("*.log")):
        lines = path.read_text(errors="replace").splitlines() if path.stat().st_mtime >= since else []
        said += [line for line in lines[-1:] if line.startswith("leaklab ")]
    return said


def _to_do(outputs: Iterable[Path], pieces: int) -> str:
    waiting = sum(not path.is_file() for path in outputs) + pieces
    return f"{waiting} of them without a result yet" if waiting else "all of them with a result"


def _data(missing: list[str]) -> str:
    return f"not run for want of data: {', '.join(missing)}" if missing else "all data are at hand"
