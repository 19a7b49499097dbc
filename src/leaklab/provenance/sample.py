"""Which of the stale runs are repeated: the cheapest of every stage and of every plug-in, renderer and reader."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from leaklab.data.catalog import find_entry, find_text, load_catalog
from leaklab.items.expand import block_stage
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.plan import PREPARED, Job, Plan
from leaklab.planning.resources import cost
from leaklab.provenance.audit import Made, behind_results, made_by, spec_of
from leaklab.records.config import Scale
from leaklab.records.files import sha256
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.traits import check_traits
from leaklab.specs.attack import THEORY
from leaklab.specs.base import RUNS, Spec, run_folder, run_id
from leaklab.specs.stages import stage_of_file

# imports and start of one job, and a data set that has to be fetched; seconds
START_SECONDS = 3.0
FETCH_SECONDS = 10.0
# they describe other records, so each is repeated alone, among the records of the older code
READ_RECORDS = ("publish_runs", "build_report", "audit_provenance", "build_crate")


@dataclass(frozen=True)
class Stale:
    """A record of a result, or of a run behind one, that other code has made.

    Attributes:
        entry: the record.
        made: what would make it here.
        generation: of the code that made it: digests that were accepted for each other are one.
        parts: what it exercises.
        timed: metrics that it measures with a clock, by declaration of its check.
        hindrance: why it cannot be evidence; empty where it can.
        upstream: runs that have to be made first because they are not in this checkout.
    """

    entry: Entry
    made: Made
    generation: str
    parts: tuple[str, ...]
    timed: tuple[str, ...] = ()
    hindrance: str = ""
    upstream: tuple[Job, ...] = ()

    @property
    def seconds(self) -> float:
        """Return what repeating it costs, estimated."""
        return seconds_of([self])

    @property
    def code(self) -> str:
        """Return the digest of the code that made it."""
        return str(self.entry.content["code"])

    @property
    def commit(self) -> str:
        """Return the commit of the code that made it."""
        return str(self.entry.content.get("commit") or "")

    @property
    def group(self) -> tuple[Made, str]:
        """Return what is adopted together: code here and code then."""
        return self.made, self.generation


@dataclass(frozen=True)
class Survey:
    """All stale records of a checkout that the plan of today still asks for."""

    plan: Plan
    ledger: Ledger
    lock: CodeLock
    device: str = "cpu"

    @cached_property
    def stale(self) -> list[Stale]:
        """Return them, in the order of the ledger."""
        wanted = behind_results(self.ledger)
        entries = [e for e in self.ledger.entries if e.path in wanted or e.path.is_relative_to(RUNS)]
        return [found for entry in entries if (found := self._stale(entry))]

    def _stale(self, entry: Entry) -> Stale | None:
        made = made_by(entry, self.ledger)
        known = made is not None and self.lock.accepts(made.key, entry.content["code"], made.code)
        if made is None or known or entry.content.get("dirty") or not self._planned(entry):
            return None
        parts, timed = self._parts(entry), self._timed(entry)
        hindrance = self._hindrance(entry)
        try:
            upstream = tuple({job.folder: job for path in entry.inputs for job in self._missing(path)}.values())
        except KeyError as gone:
            upstream, hindrance = (), hindrance or f"it read {gone.args[0]}, which is not here and not planned any more"
        generation = self.lock.generation(made.key, entry.content["code"])
        return Stale(entry, made, generation, parts, timed, hindrance, upstream)

    def _planned(self, entry: Entry) -> bool:
        spec = spec_of(entry, self.ledger)
        if spec is not None:
            known = run_id(spec) in self.plan.jobs.get(spec.stage, {})
            return known and entry.path.parent == run_folder(spec)
        if "item" in entry.content["spec"]:
            return _item_of(entry) in self.plan.runs
        return True

    def _parts(self, entry: Entry) -> tuple[str, ...]:
        asked, spec = entry.content["spec"], spec_of(entry, self.ledger)
        if spec is not None:
            return (entry.rule, *sorted({f"{room}/{name}" for room, name, _ in spec.plugins()}))
        if entry.rule == "draw_partition":
            return (entry.rule, f"data/partitions/{asked['partition']['name']}")
        if entry.rule in ("fetch_dataset", "fetch_text"):
            return (entry.rule, f"reader {_reader(entry.rule, asked['dataset'])}")
        if "item" in asked:
            item = self.plan.items[_item_of(entry)[1]]
            if entry.rule == "make_figure":
                return (entry.rule, f"renderer {item.renderer}")
            stages = {block_stage(run) for run in self.plan.runs[_item_of(entry)]}
            return (entry.rule, *sorted(f"results of {stage}" for stage in stages), *["layout"] * bool(item.table))
        return (entry.rule,)

    def _timed(self, entry: Entry) -> tuple[str, ...]:
        spec = spec_of(entry, self.ledger)
        return timed(spec) if spec is not None else ()

    def _hindrance(self, entry: Entry) -> str:
        if "item" in entry.content["spec"]:
            for run in self.plan.runs[_item_of(entry)]:
                if run.spec is not None and timed(run.spec):
                    return "it shows wall times"
        if "--device" in entry.content["argv"] and entry.content["device"] != self.device:
            return f"it was made on device {entry.content['device']}"
        if entry.rule in READ_RECORDS:
            behind = self.ledger.behind(next(iter(entry.outputs))).entries
            gone = any(self._now(path) is None for one in behind for path in one.outputs)
            if gone or entry.content["facts"].get("stale"):
                return "not everything that it describes is here and of one code"
            return next((changed for one in behind for changed in self._changed(one)), "")
        return next(self._changed(entry), "")

    def _changed(self, entry: Entry) -> Iterator[str]:
        for path, value in entry.inputs.items():
            if self._now(path) not in (None, value):
                yield f"{path} is not what {entry.path} was made from"

    def _now(self, path: str) -> str | None:
        file = self.ledger.root / path
        return _hash(file) if file.is_file() else None

    def _missing(self, path: str) -> Iterator[Job]:
        """Yield the jobs that have to run for a file that is not in this checkout.

        Raises:
            KeyError: no job makes it.
        """
        place = Path(path)
        if (self.ledger.root / place).is_file() or place.is_relative_to(PREPARED):
            return
        job = self.plan.jobs.get(stage_of_file(place), {}).get(place.parent.name)
        if job is None:
            raise KeyError(path)
        for needed in job.needs:
            yield from self._missing(str(run_folder(needed) / "run.json"))
        yield job


@dataclass(frozen=True)
class Sample:
    """What is repeated, and what that leaves out.

    Attributes:
        runs: the stale records that are repeated.
        uncovered: part -> why no run can show it, for the groups that stay stale.
    """

    runs: tuple[Stale, ...]
    uncovered: dict[tuple[Made, str], str]


def choose(stale: Iterable[Stale]) -> Sample:
    """Choose the cheapest run for every part of every group, in the order of how few runs have the part."""
    found = sorted(stale, key=lambda one: (one.seconds, str(one.entry.path)))
    groups: dict[tuple[Made, str], list[Stale]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(one)
    uncovered: dict[tuple[Made, str], str] = {}
    needs: list[list[Stale]] = []
    for group, members in groups.items():
        for part in members_parts(members):
            able = [one for one in found if not one.hindrance and part in one.parts and speaks_for(one, members)]
            needs.append(able)
            if not able:
                why = next((one.hindrance for one in members if one.hindrance), "no run of it is here")
                uncovered.setdefault(group, f"{part}: {why}")
    chosen: dict[Path, Stale] = {}
    for able in sorted(filter(None, needs), key=len):
        if not any(one.entry.path in chosen for one in able):
            chosen[able[0].entry.path] = able[0]
    return Sample(tuple(chosen.values()), uncovered)


def seconds_of(runs: Iterable[Stale]) -> float:
    """Return the processor time of repeating runs; what several of them rest on is made once."""
    found = list(runs)
    upstream = {job.folder: job for one in found for job in one.upstream}.values()
    fetched = {job.dataset for job in upstream if job.dataset and not _prepared(job.dataset)}
    own = sum(START_SECONDS + float(one.entry.content["wall_seconds"]) for one in found)
    return own + sum(START_SECONDS + cost(job.spec).seconds for job in upstream) + FETCH_SECONDS * len(fetched)


def members_parts(members: Iterable[Stale]) -> tuple[str, ...]:
    """Return the parts of all members of a group."""
    return tuple(sorted({part for one in members for part in one.parts}))


def speaks_for(one: Stale, members: Iterable[Stale]) -> bool:
    """Tell whether a run was made by the same older code as a group: of its generation, or at one of its commits."""
    found = list(members)
    same = one.generation == found[0].generation or one.commit in {member.commit for member in found}
    return one.made.rule == found[0].made.rule and same


def timed(spec: Spec) -> tuple[str, ...]:
    """Return the metrics of a run that are wall times, as its check declares."""
    return tuple(metric for room, name, _ in spec.plugins() if room == THEORY for metric in check_traits(name).timed)


@cache
def _hash(file: Path) -> str:
    return sha256(file)


def _item_of(entry: Entry) -> tuple[Scale, str]:
    asked = entry.content["spec"]
    return asked["scale"], f"{asked['paper']}/{asked['item']}"


def _reader(rule: str, dataset: str) -> str:
    found = find_entry(dataset, load_catalog()) if rule == "fetch_dataset" else find_text(dataset)
    return " or ".join(sorted({source.reader.name for source in found.sources}))


def _prepared(dataset: str) -> bool:
    return any(Path(PREPARED / f"{dataset}.{kind}").is_file() for kind in ("safetensors", "json"))
