"""What a call of the workflow ends with: the answer, where to see more, and what was not run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from leaklab.planning.own_items import is_own
from leaklab.planning.plan import Plan, result_files
from leaklab.records.config import Scale
from leaklab.report.numbers.reading import read_table
from leaklab.report.numbers.results import ResultTable
from leaklab.report.site import threat_letters
from leaklab.report.site.answers import answer
from leaklab.report.site.headlines import ON_STAND_INS, load_headlines, read_grants

MOST_NAMED = 4


def ending(plan: Plan, asked: Mapping[Scale, set[str] | None]) -> Iterator[str]:
    """Yield the lines of a call that made all that was asked for.

    Args:
        plan: of the call.
        asked: scale -> keys of the items that were asked for; None for all of the scale.

    Raises:
        UserError: a table is damaged.
    """
    for scale, keys in asked.items():
        if keys is None:
            yield from answers(scale)
            page = Path("results", scale, "report/index.html")
            if page.is_file():
                yield f"report: {page.resolve()}"
        for key in sorted(keys or ()):
            yield from _made(plan, scale, key)
        yield from not_run(plan, scale, keys)


def answers(scale: Scale) -> Iterator[str]:
    """Yield the sentence that stands first on each paper's page, for the papers whose numbers are here."""
    for paper, headline in load_headlines().items():
        tables = {Path("results", scale, paper, f"{line.item}.csv") for line in headline.lines}
        read = [read_table(path) for path in sorted(tables) if path.is_file()]
        rows = ResultTable(tuple(row for table in read for row in table.rows))
        found = answer(paper, headline, rows, read_grants(Path("results", scale, threat_letters.FILE)))
        if found is not None:
            yield f"{paper} at scale {scale}: {ON_STAND_INS if scale == 'demo' else ''}{found.sentence}"


def not_run(plan: Plan, scale: Scale, keys: set[str] | None = None) -> Iterator[str]:
    """Yield a line for each reason for which items of a scale were not run, or not wholly."""
    wanted = [item for key, item in plan.items.items() if not is_own(item) and (keys is None or key in keys)]
    reasons: dict[str, list[str]] = {}
    for item in wanted:
        for name, why in (item.scales[scale].missing if scale in item.scales else {}).items():
            reasons.setdefault(f"{name}: {why}", []).append(item.key)
    for reason, names in reasons.items():
        yield f"not run for want of {reason} ({', '.join(names)})"
    if keys is None:
        there = [item.key for item in wanted if (scale, item.key) in plan.runs]
        ready = {item.key for item in plan.ready(scale)}
        apart = [key for key in there if key not in ready]
        told = {key for names in reasons.values() for key in names}
        others = [item.key for item in wanted if item.key not in {*there, *told}]
        yield from _listed(others, f"not set up for scale {scale}, `leaklab items --why` says why")
        yield from _listed(apart, "made only when asked for by name")


def _listed(keys: Sequence[str], why: str) -> Iterator[str]:
    more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    if keys:
        yield f"not run: {', '.join(keys[:MOST_NAMED])}{more}: {why}"


def _made(plan: Plan, scale: Scale, key: str) -> Iterator[str]:
    item = plan.items.get(key)
    made = [path for name in ("csv", "png") if item and (path := result_files(item, scale)[name]).is_file()]
    if made:
        yield f"{key} at scale {scale}: {' and '.join(map(str, made))}"
