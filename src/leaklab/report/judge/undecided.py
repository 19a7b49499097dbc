"""How many more updates, seeds or draws would decide an undecided claim, were their spread the published one.

No promise: the numbers will move. A claim of which a part lies within its interval asks for as many as shrink that
interval to the margin; of a share the exact interval says, of anything else Student's.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leaklab.items.items import load_items
from leaklab.metrics.intervals import is_share
from leaklab.metrics.statistics import LEAST_CLUSTERS, LEVEL, summarise
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import measured_device
from leaklab.planning.estimate import estimate
from leaklab.planning.gpus import device_wanted
from leaklab.planning.kept_plans import known_plan
from leaklab.records.config import Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError
from leaklab.report.judge.cases import Outcome, Part
from leaklab.report.judge.claims import Claim, read_claims
from leaklab.report.judge.draws import asked_of_draws, outcome_of, with_more_seeds
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.intervals import exact_share
from leaklab.report.judge.judging import judge_all
from leaklab.report.judge.tolerances import StandIns, Tolerances
from leaklab.report.numbers.reading import read_table
from leaklab.report.numbers.results import ResultRow, ResultTable, summarised

RESULTS, PAPERS = Path("results"), Path("config/papers")
MOST = 100_000
"""More than so many are never run; a claim that asks for more is said to hang on something else."""
BELOW = "were the spread as it is published, and the numbers too; times at most; none: no number of them decides"
TRAINING = "train"
UPDATES, SEEDS, DRAWS = "updates", "seeds", "draws"
LEAST = {UPDATES: LEAST_CLUSTERS, SEEDS: 2, DRAWS: LEAST_CLUSTERS}


@dataclass(frozen=True)
class Need:
    """What would decide a claim.

    Attributes:
        claim: its id.
        items: ``paper/item`` of every item whose numbers it asks for.
        unit: what it needs more of: updates, seeds or draws.
        now: how many there are, of the number with the fewest.
        needed: how many would decide it at the published spread; None where none would, or nothing tells.
        why: the comparison that asks for them, or why no number of them decides.
    """

    claim: str
    items: tuple[str, ...]
    unit: str
    now: int
    needed: int | None
    why: str

    @property
    def factor(self) -> float | None:
        """How many times as many; None where that is not known."""
        return None if self.needed is None or not self.now else self.needed / self.now


def seconds_for(needs: Sequence[Need], scale: Scale) -> list[float | None]:
    """Return the CPU seconds that what each claim needs more takes: its items' runs again, times the factor less one.

    Of seeds and draws trainings are run again, of updates all that comes after them. At most, as plans estimate.

    Raises:
        UserError: the project's items cannot be read.
    """
    items, device, lock = load_items(), measured_device(device_wanted()), CodeLock.load()
    plan = known_plan(items, (scale,))
    known: dict[tuple[str, bool], float] = {}

    def seconds(key: str, trained: bool) -> float:
        if (key, trained) not in known:
            jobs = plan.jobs_of(scale, items[key]) if (scale, key) in plan.runs else []
            own = [job for job in jobs if (job.spec.stage == TRAINING) == trained]
            cost = estimate(own, lock, device)
            known[key, trained] = cost.seconds + cost.gpu_seconds
        return known[key, trained]

    return [
        None
        if need.factor is None
        else (need.factor - 1) * sum(seconds(key, need.unit != UPDATES) for key in need.items if key in items)
        for need in needs
    ]


def table(needs: Sequence[Need], costs: Sequence[float | None]) -> Table:
    """Return a table with a line for each claim."""
    found = Table(title="undecided claims", title_justify="left", box=SIMPLE_HEAD)
    for column in ("claim", "of", "now", "needed", "times", "more CPU time", "why"):
        found.add_column(column, justify="left" if column in ("claim", "of", "why") else "right")
    for need, cost in zip(needs, costs, strict=True):
        asked = ["none", "", ""] if need.factor is None else [str(need.needed), f"{need.factor:.1f}", duration(cost)]
        found.add_row(need.claim, need.unit, str(need.now), *asked, need.why)
    return found


def as_json(needs: Sequence[Need], costs: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return the same for programs."""
    both = zip(needs, costs, strict=True)
    return [asdict(need) | {"factor": need.factor, "cpu_seconds": cost} for need, cost in both]


def published_results(folder: Path) -> ResultTable:
    """Return all result tables of a scale.

    Args:
        folder: ``results/<scale>``.

    Raises:
        UserError: there are none, or one is damaged.
    """
    tables = sorted(folder.glob("*/*.csv"))
    if not tables:
        raise UserError(f"{folder} has no result tables: make them with 'snakemake --cores 2 {folder.name}' first")
    return ResultTable(tuple(row for path in tables for row in read_table(path).rows))


def undecided_at(scale: Scale) -> list[Need]:
    """Return what each claim needs that the results of a scale in this folder leave undecided; see ``undecided``.

    Raises:
        UserError: there are no results of the scale, or a file is damaged.
    """
    results = published_results(RESULTS / scale)
    printed = ResultTable.read_printed(PAPERS / "targets.csv")
    stand_ins = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins
    return undecided(read_claims(PAPERS / "claims.csv"), results, printed, stand_ins, scale)


def undecided(
    claims: Iterable[Claim], results: ResultTable, printed: ResultTable, stand_ins: StandIns, scale: str
) -> list[Need]:
    """Return what each undecided claim needs, under the paper's attacker, those that need least first.

    Args:
        claims: of all papers.
        results: of one scale.
        printed: the printed numbers.
        stand_ins: metrics that claims may be judged on instead of their own.
        scale: which one.
    """
    every = tuple(claims)
    verdicts = judge_all(every, results, printed, stand_ins, scale)
    found = []
    for claim, verdict in zip(every, verdicts, strict=True):
        if verdict.verdict == "undecided":
            own = Indexed(with_more_seeds(results.select(paper=claim.paper)))
            evidence = Evidence(own, printed.select(paper=claim.paper), stand_ins=stand_ins.of(claim.id))
            found.append(_need(claim, evidence, results, verdict.judgement.reason))
    return sorted(found, key=lambda need: (need.factor is None, need.factor or 0.0, need.claim))


def _need(claim: Claim, evidence: Evidence, results: ResultTable, reason: str) -> Need:
    outcomes = [outcome_of(claim, text, evidence) for text in filter(None, (claim.check, claim.premise))]
    rows = [row for row in evidence.touched if row.n is not None]
    items = tuple(dict.fromkeys(f"{claim.paper}/{row.item}" for row in evidence.touched)) or (
        f"{claim.paper}/{claim.item}",
    )
    unit = UPDATES if any(row.attacker or row.aside for row in rows) else SEEDS
    now = min((row.clusters or row.n or 0 for row in rows), default=0)
    asked = asked_of_draws(claim, results)
    if asked is not None and len(asked.holds) >= LEAST_CLUSTERS:
        series = list(asked.margins.values())
        needed = _together([_draws_needed(own, claim.tie) for own in series], [summarise(o).mean for o in series])
        return Need(claim.id, items, DRAWS, len(asked.holds), needed, reason)
    if now < LEAST[unit] and rows:
        return Need(claim.id, items, unit, now, LEAST[unit], f"at least so many: {reason}")
    needs = [_of_outcome(one, rows, now) for one in outcomes if isinstance(one, Outcome)]
    if len(needs) < len(outcomes) or None in needs:
        return Need(claim.id, items, unit, now, None, reason)
    return Need(claim.id, items, unit, now, max((need for need in needs if need), default=now), reason)


def _of_outcome(outcome: Outcome, rows: Sequence[ResultRow], now: int) -> int | None:
    """Return how many decide a check: all its open comparisons, or one that lies on the wrong side."""
    if outcome.truth.decided:
        return now
    open_ = [part for part in outcome.made if not part.truth.decided]
    signs = [part.margin.distance.value if part.margin else 0.0 for part in open_]
    return _together([_part_needed(part, rows, now) for part in open_], signs)


def _together(needs: Sequence[int | None], margins: Sequence[float]) -> int | None:
    """Return the fewest that show one comparison to fail; where all hold so far, as many as all of them need."""
    failing = [need for need, margin in zip(needs, margins, strict=True) if margin < 0]
    if failing:
        return min((need for need in failing if need is not None), default=None)
    return None if None in needs else max((need for need in needs if need is not None), default=None)


def _part_needed(part: Part, rows: Sequence[ResultRow], now: int) -> int | None:
    margin = part.margin
    if margin is None or not math.isfinite(margin.distance.value) or margin.distance.is_open:
        return None
    share = next((row for row in rows if row.value == margin.found.value and is_share(summarised(row.metric))), None)
    if share is not None and margin.needed.is_exact:
        return _share_needed(margin.found.value, margin.needed.value, share.clusters or now)
    distance = margin.distance
    gap = distance.value - distance.low if distance.value > 0 else distance.high - distance.value
    return _mean_needed(abs(distance.value), gap, now)


def _share_needed(value: float, bar: float, now: int) -> int | None:
    """Return how many updates have an exact interval of the same share that leaves out the bar."""

    def apart(count: int) -> bool:
        found = exact_share(round(value * count) / count, count)
        return bar < found.low or bar > found.high

    return None if value == bar else _fewest(apart, now)


def _mean_needed(margin: float, gap: float, now: int) -> int | None:
    """Return how many values shrink Student's gap to the margin, were their spread as it is."""
    if margin == 0 or now < LEAST[SEEDS]:
        return None
    from scipy.special import stdtrit  # slow to import

    def reach(count: int) -> float:
        return float(stdtrit(count - 1, (1 + LEVEL) / 2)) / math.sqrt(count)

    return _fewest(lambda count: gap * reach(count) / reach(now) < margin, now)


def _draws_needed(margins: Sequence[float], tie: float) -> int | None:
    found = summarise(list(margins))
    if found.ci_low is None or found.ci_high is None:
        return None
    return _mean_needed(abs(found.mean + tie), (found.ci_high - found.ci_low) / 2, found.clusters)


def _fewest(enough: Callable[[int], bool], now: int) -> int | None:
    """Return the smallest number from ``now`` on that is enough, to a hundredth; None where even ``MOST`` is not."""
    count = max(now, 2)
    while count <= MOST:
        if enough(count):
            return count
        count += max(1, count // 100)
    return None
