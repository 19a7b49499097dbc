"""One call of Snakemake: what was asked for, what it plans, and the line with which it begins.

Before its first job it looks after the environment, calls before it and the folders that it writes into. A call that
works leaves a file whose name says machine, process and when it began, and takes it away when it ends: so the lock of
one that was killed can be told from that of one that lives, and removed.
"""

import atexit
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from leaklab.items.items import Item
from leaklab.planning.devices import Device
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.missing import Missing, find_missing, found_before, pass_on, without_missing
from leaklab.planning.outputs import idle_defenses, jobs_behind, nothing_done, outputs_of_scale, records_behind
from leaklab.planning.pieces import Cut
from leaklab.planning.plan import Plan
from leaklab.records.config import SCALES, Config, Scale
from leaklab.records.environment import CHECKPOINT_SECONDS
from leaklab.records.errors import UserError
from leaklab.records.git import stay_here

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
        self._everything = KnownPlan.of(known_plan(self.items, self._scales))

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
        everything = self._everything if same else KnownPlan.of(known_plan(self.items, scales))
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

    def items_of_runs(self, plan: Plan) -> dict[tuple[str, str], list[str]]:
        """Return stage and id of each run -> keys of the asked items that need it."""
        found: dict[tuple[str, str], list[str]] = {}
        for scale in self.asked:
            for item in self._wanted(plan, scale):
                for job in plan.jobs_of(scale, item):
                    found.setdefault((job.spec.stage, job.name), []).append(item.key)
        return found

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


def _to_do(outputs: Iterable[Path], pieces: int) -> str:
    waiting = sum(not path.is_file() for path in outputs) + pieces
    return f"{waiting} of them without a result yet" if waiting else "all of them with a result"


def _data(missing: list[str]) -> str:
    return f"not run for want of data: {', '.join(missing)}" if missing else "all data are at hand"


CALLS, LOCKS = Path(".snakemake/calls"), Path(".snakemake/locks")
STEPS = "leaklab.steps."
BEGAN = 19
"""Place of the start time in ``/proc/<pid>/stat``, counted after the name of the program."""


def prepare(config: Config) -> None:
    """Set the environment that jobs inherit; what is set already wins over the configuration."""
    stay_here()
    # `python` in the rules is the one that runs Snakemake, whether or not its environment is activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # two processes of one thread beat one process of two threads on every workload measured
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault(CHECKPOINT_SECONDS, str(config.checkpoint_seconds))
    if config.mirror:
        os.environ.setdefault("LEAKLAB_MIRROR", config.mirror)


def note_call(root: Path = Path()) -> None:
    """Note that this process works in the folder, until it ends."""
    path = root.absolute() / CALLS / f"{platform.node()}.{os.getpid()}.{_began(os.getpid())}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    atexit.register(path.unlink, missing_ok=True)


def free_lock_of_killed_call(root: Path = Path()) -> str:
    """Remove Snakemake's lock if all calls that can hold it were killed on this machine and none of their jobs works.

    Returns:
        what was done or why not, for the user; empty where there is nothing to say.
    """
    notes = sorted((root / CALLS).glob("*")) if any((root / LOCKS).glob("*")) else []
    if not notes or any(_may_live(note.name) for note in notes):
        return ""
    if jobs := _jobs_of(root):
        numbers = ", ".join(map(str, jobs))
        return (
            f"an earlier call was killed, but jobs of it still work (processes {numbers}): wait for them, or end them"
        )
    shutil.rmtree(root / LOCKS)
    for note in notes:
        note.unlink(missing_ok=True)
    return "an earlier call was killed: its lock is removed, and what it finished is kept"


def _may_live(name: str) -> bool:
    """A call on another machine cannot be seen from here, so it counts as alive."""
    machine, process, began = name.rsplit(".", 2)
    return machine != platform.node() or _began(int(process)) == began


def _began(process: int) -> str:
    """Return when a process began, in ticks since the machine did; empty where there is none.

    Not as psutil has it, in seconds since 1970: those change when the clock is set, and a living call would look dead.
    """
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[BEGAN]


def _jobs_of(root: Path) -> list[int]:
    """Return the processes of this machine that run a step in the folder."""
    import psutil  # when a call was killed, and not in each job's process

    folder = str(root.resolve())
    here = (one for one in psutil.process_iter(["cmdline", "cwd"]) if one.info["cwd"] == folder)
    return sorted(one.pid for one in here if any(word.startswith(STEPS) for word in one.info["cmdline"] or []))


def refuse_closed_folders(outputs: Iterable[object]) -> None:
    """Refuse to start jobs whose outputs could not be written: Snakemake would end in the midst of the others.

    Args:
        outputs: paths of all files that are to be made.

    Raises:
        UserError: a folder may not be written; it names the first of them.
    """
    folders = {_nearest(Path(str(path)).parent) for path in outputs}
    closed = sorted(str(folder) for folder in folders if not os.access(folder, os.W_OK | os.X_OK))
    if closed:
        more = f" and {len(closed) - 1} more folders" if closed[1:] else ""
        raise UserError(
            f"{closed[0]}{more} may not be written: give yourself the right to (chmod u+w), or free the place of a "
            "file system that is mounted read-only, and run the same command again; nothing was started"
        )


def _nearest(folder: Path) -> Path:
    """Return the folder, or the one that is there and in which it would be made."""
    while not folder.exists():
        folder = folder.parent
    return folder


def make_folders_of_scales(root: Path = Path()) -> None:
    """Make the folders of all scales, as `dvc commit` ends in an error where one of its outputs is not there."""
    for kind in ("results", "figures"):
        for scale in SCALES:
            (root / kind / scale).mkdir(parents=True, exist_ok=True)
