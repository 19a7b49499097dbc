"""Hours on one H100 by three bounds, of which the largest decides; sums over items, each job once in the whole."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from leaklab.planning.plan import Job, Plan
from leaklab.planning.resources import cost
from leaklab.records.config import Scale
from paper_hours.counting import Count
from paper_hours.kinds import Kind, units_of, words_of

SCALE: Scale = "paper"
PEAK = {"float32": 67e12, "float64": 34e12}
BANDWIDTH = 3.35e12
"""Of an H100 SXM, as its maker's data sheet has them: operations a second outside tensor cores, bytes a second."""
SHARE = 0.3
LAUNCH_SECONDS = 5e-6
EVERY = "all"
BOUNDS = {"flop_hours": "products", "byte_hours": "bytes", "launch_hours": "launches"}


@dataclass(frozen=True)
class Load:
    """What some jobs ask for.

    Attributes:
        jobs: their number.
        units: client steps, evaluations and the like, at most.
        flop: see ``Count``, as the next two.
        bytes: likewise.
        kernels: likewise.
        flop_hours: of the products at ``SHARE`` of the peak.
        byte_hours: of all bytes at ``SHARE`` of the bandwidth.
        launch_hours: of all launches.
        hours: of the largest of the three, kind by kind.
        slow_hours: the same with launches that take as long as they were measured to.
        thread_hours: of a processor thread, by the plan.
    """

    jobs: int = 0
    units: float = 0
    flop: float = 0.0
    bytes: float = 0.0
    kernels: float = 0.0
    flop_hours: float = 0.0
    byte_hours: float = 0.0
    launch_hours: float = 0.0
    hours: float = 0.0
    slow_hours: float = 0.0
    thread_hours: float = 0.0

    def __add__(self, other: "Load") -> "Load":
        return Load(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Load)})

    @property
    def decided_by(self) -> str:
        """The bound with most hours; empty where there are none."""
        return decider((self.flop_hours, self.byte_hours, self.launch_hours)) if self.hours else ""


def seconds_of(count: Count, precision: str) -> tuple[float, float, float]:
    """Return the seconds of products, bytes and launches."""
    rate = SHARE * PEAK[precision]
    return count.flop / rate, count.bytes / (SHARE * BANDWIDTH), count.kernels * LAUNCH_SECONDS


def decider(bounds: Sequence[float]) -> str:
    """Return which of the three bounds is the largest, in words."""
    return tuple(BOUNDS.values())[max(range(3), key=lambda place: bounds[place])]


def load_of(job: Job, plan: Plan, kinds: Mapping[str, Kind], slower: float = 1.0) -> Load:
    """Return what one job asks for; nothing is known of a job that has no unit on a GPU but the plan's time.

    Args:
        job: of the plan.
        plan: see there.
        kinds: by their words.
        slower: how many times as long as ``LAUNCH_SECONDS`` launches were measured to take.
    """
    thread_hours, words = cost(job.spec).seconds / 3600, words_of(job.spec)
    if not words:
        return Load(jobs=1, thread_hours=thread_hours)
    units, kind = units_of(job, plan), kinds[words]
    whole = kind.count * units
    bounds = [seconds / 3600 for seconds in seconds_of(whole, kind.precision)]
    slow = max(bounds[0], bounds[1], bounds[2] * slower)
    return Load(1, units, whole.flop, whole.bytes, whole.kernels, *bounds, max(bounds), slow, thread_hours)


def summed(loads: Iterable[Load]) -> Load:
    """Return the sum."""
    return sum(loads, Load())


def jobs_by_item(plan: Plan) -> dict[str, list[Job]]:
    """Return item -> all its jobs, of the items that are made with the scale."""
    return {item.key: plan.jobs_of(SCALE, item) for item in plan.ready(SCALE)}


def each_once(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs without repetitions, in order."""
    return list({(job.spec.stage, job.name): job for job in jobs}.values())


def table(plan: Plan, kinds: Mapping[str, Kind], slower: float = 1.0) -> list[dict[str, object]]:
    """Return one line an item and stage, one of each item, and the same of all items, where each job counts once."""
    items = jobs_by_item(plan)
    whole = each_once(job for jobs in items.values() for job in jobs)
    loads = {(job.spec.stage, job.name): load_of(job, plan, kinds, slower) for job in whole}
    rows: list[dict[str, object]] = []
    for item, jobs in [(EVERY, whole), *items.items()]:
        stages = list(dict.fromkeys(job.spec.stage for job in jobs))
        for stage in [EVERY, *stages]:
            own = [loads[job.spec.stage, job.name] for job in jobs if stage in (EVERY, job.spec.stage)]
            load = summed(own)
            rows.append({"item": item, "stage": stage, **asdict(load), "decided_by": load.decided_by})
    return rows


def heaviest(plan: Plan, kinds: Mapping[str, Kind], number: int) -> list[tuple[str, list[Job], list[str]]]:
    """Return the items with most hours, the jobs of each that no heavier one has, and the items with the same jobs."""
    items, taken = jobs_by_item(plan), set[tuple[str, str]]()
    found: list[tuple[str, list[Job], list[str]]] = []
    hours = {
        (job.spec.stage, job.name): load_of(job, plan, kinds).hours
        for job in each_once(job for jobs in items.values() for job in jobs)
    }
    costly = {
        item: {key for job in jobs if hours[key := (job.spec.stage, job.name)] > 0} for item, jobs in items.items()
    }
    while len(found) < number:
        left = {item: sum(hours[key] for key in own - taken) for item, own in costly.items()}
        item = max(left, key=lambda one: left[one])
        same = [other for other, own in costly.items() if other != item and own == costly[item]]
        found.append((item, [job for job in items[item] if (job.spec.stage, job.name) in costly[item] - taken], same))
        taken |= costly[item]
    return found
