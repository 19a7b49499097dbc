"""From an item's runs to its long result table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module

from leaklab.items.expand import PlannedRun, block_stage, expand, expand_absent
from leaklab.items.items import Item
from leaklab.planning.code import COLLECTOR_OF_STAGE, collector_module
from leaklab.records.config import Scale
from leaklab.records.record import canonical_json
from leaklab.report.collect.source import Attacked, Collected, Source, dataset_of, network_of
from leaklab.report.numbers.results import ResultRow, ResultTable, identity
from leaklab.specs.attack import LandscapeSpec

NOT_RUN = "not run"


def collect(item: Item, scale: Scale) -> ResultTable:
    """Read all runs of an item at a scale and return its result table.

    Raises:
        UserError: a run's file is missing or damaged, or a row key does not point into the runs.
    """
    runs, absent = expand(item, scale), expand_absent(item, scale)
    at_paper_scale = _specs(expand(item, "paper"))
    meant_here = sorted([*runs, *(run for run, _ in absent)], key=lambda run: list(item.runs).index(run.block))
    replaced = _replaced(_datasets(_specs(meant_here)), _datasets(at_paper_scale))
    every = frozenset(canonical_json(spec) for spec in at_paper_scale)
    networks, generators, distances = _networks(at_paper_scale), _generators(at_paper_scale), _distances(at_paper_scale)
    source = Source(item, scale, every, replaced, networks, generators, distances)
    rows: list[ResultRow] = []
    for name in dict.fromkeys(map(_together, runs)):
        group = [run for run in runs if _together(run) == name]
        rows.extend(_collector(block_stage(group[0]), ROWS)(source, group))
    return ResultTable((*rows, *_absent_rows(source, absent)))


def _together(run: PlannedRun) -> str:
    """Return what is collected together: a block, but all attacks of an item, as one of them is the strongest."""
    stage = block_stage(run)
    return stage if stage in ("score", "score-text", "landscape") else f"block {run.block}"


def _absent_rows(source: Source, absent: Sequence[tuple[PlannedRun, str]]) -> Iterator[ResultRow]:
    """Yield one row without a value for each number that this scale cannot have; its note says why."""
    seen: set[tuple[str, str, str]] = set()
    for run, reason in absent:
        if run.spec is None or block_stage(run) not in ABSENT_ROWS:
            continue
        for row in _collector(block_stage(run), ABSENT_ROWS)(source, run, f"{NOT_RUN}: {reason}"):
            key = identity(row.row), row.metric, row.variant
            if key not in seen:  # runs that would share a cell share its absence
                seen.add(key)
                yield row


ROWS = {
    "train": "training_rows",
    "score": "attack_rows",
    "landscape": "landscape_rows",
    "score-text": "text_rows",
    "check": "check_rows",
    "architecture": "architecture_rows",
}
ABSENT_ROWS = {"train": "absent_training_rows", "score": "absent_attack_rows", "score-text": "absent_text_rows"}


def _collector(stage: str, names: Mapping[str, str]) -> Callable[..., Iterator[ResultRow]]:
    """Return the collector of a stage, found by its name, so that an edit of it ages no table of other stages."""
    module = import_module(collector_module(COLLECTOR_OF_STAGE[stage]))
    collector: Callable[..., Iterator[ResultRow]] = getattr(module, names[stage])
    return collector


def _specs(runs: Sequence[PlannedRun]) -> list[Collected]:
    return [run.spec for run in runs if isinstance(run.spec, Collected)]


def _networks(specs: Sequence[Collected]) -> dict[str, list[str]]:
    pairs = [(dataset_of(spec), network_of(spec)) for spec in specs if network_of(spec)]
    return {dataset: list(dict.fromkeys(n for d, n in pairs if d == dataset)) for dataset, _ in pairs}


def _generators(specs: Sequence[Collected]) -> tuple[str, ...]:
    priors = [spec.attack.generator for spec in specs if isinstance(spec, Attacked)]
    return tuple(dict.fromkeys(prior.model.name for prior in priors if prior))


def _distances(specs: Sequence[Collected]) -> tuple[str, ...]:
    shown = [name for spec in specs if isinstance(spec, LandscapeSpec) for name in spec.metrics]
    return tuple(dict.fromkeys(shown))


def _datasets(specs: Sequence[Collected]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(dataset_of, specs))))


def _replaced(here: list[str], at_paper_scale: list[str]) -> dict[str, str]:
    """Return what stands in for what: data sets pair up in the order of the item's file."""
    every = ", ".join(at_paper_scale)
    pairs = zip(here, at_paper_scale, strict=True) if len(here) == len(at_paper_scale) else ((d, every) for d in here)
    return {own: meant for own, meant in pairs if own not in at_paper_scale}
