"""What the runs of a scale leave beside its results, for a checkout without runs: costs, metric cards and deals."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.records.ledger import Entry, Ledger

COSTS, CARDS, RECORD = "costs.csv", "cards.json", "costs.run.json"
RUNS = "results/runs/"
COLUMNS = ("item", "jobs", "wall_seconds", "cpu_seconds", "peak_memory_mib", "device", "evaluations")
RESTORE = "restore it from the repository, or delete it and run snakemake for it"


@dataclass(frozen=True)
class MetricCard:
    """How a metric is computed: domain, peak, clamping, network and input range, assignment, averaging."""

    metric: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Cost:
    """What it took to make an item, summed over its run records and benchmark files.

    Attributes:
        jobs: number of runs.
        wall_seconds: of all jobs, one after another.
        cpu_seconds: of all jobs; None where not measured.
        peak_memory_mib: of the largest job; None where not measured.
        devices: devices used, e.g. ``cpu``.
        evaluations: of an attack's matching loss, of all jobs.
    """

    jobs: int
    wall_seconds: float
    cpu_seconds: float | None = None
    peak_memory_mib: float | None = None
    devices: tuple[str, ...] = ()
    evaluations: int = 0


@dataclass(frozen=True)
class Published:
    """Costs and metric cards by item (``lrp/table1``); what was not published is not in them."""

    costs: Mapping[str, Cost]
    cards: Mapping[str, tuple[MetricCard, ...]]

    @classmethod
    def load(cls, folder: Path) -> "Published":
        """Read what lies in ``results/<scale>``.

        Raises:
            UserError: a file is damaged.
        """
        costs, cards = folder / COSTS, folder / CARDS
        return cls(_read_costs(costs) if costs.is_file() else {}, _read_cards(cards) if cards.is_file() else {})


def published_deal(scale: str, run: Path) -> Path:
    """Return where the drawing of who holds what is published that was made in a run's folder."""
    return Path("figures", scale, f"partition-{run.name}.png")


def still_published(folder: Path, figures: Mapping[str, Path]) -> Published:
    """Return what was published in ``results/<scale>`` of items whose runs are neither here nor packed.

    Args:
        folder: of the scale's results.
        figures: item -> its figure.

    Raises:
        UserError: of an item nothing was published, or its figure is not the one that it was published with.
    """
    if not figures:
        return Published({}, {})
    before = Published.load(folder)
    record = folder / RECORD
    shown = files.read_json(record)["inputs"] if record.is_file() else {}
    for item, path in figures.items():
        if item not in before.costs or shown.get(path.as_posix()) != files.sha256(path):
            raise UserError(f"{item}: not all its runs are here, and {path} is not as published: run snakemake {path}")
    return Published(
        {item: before.costs[item] for item in figures}, {item: before.cards.get(item, ()) for item in figures}
    )


def lacks_runs(ledger: Ledger, figure: Path) -> bool:
    """Tell whether a run behind a figure has no record here."""
    return any(entry is None and path.startswith(RUNS) for _, path, entry in ledger.chain(figure.as_posix()))


def cost_of(entries: Sequence[Entry], root: Path = Path()) -> Cost:
    """Return wall and CPU time of all jobs, one after another, and the memory of the largest.

    Args:
        entries: the jobs' records.
        root: of the project, where the pieces of long jobs have records of their own, which count too.
    """
    every = [entry.content for entry in entries] + [piece for entry in entries for piece in _pieces(root / entry.path)]
    return Cost(
        jobs=len(entries),
        wall_seconds=sum(content["wall_seconds"] for content in every),
        cpu_seconds=sum(content["cpu_seconds"] for content in every),
        peak_memory_mib=max(content["peak_memory_mb"] for content in every),
        devices=tuple(sorted({entry.content["device"] for entry in entries})),
        evaluations=sum(entry.content["facts"].get("evaluations", 0) for entry in entries),
    )


def _pieces(record: Path) -> list[dict[str, Any]]:
    """Return the records of the pieces of a run, if it was cut (``planning/pieces.py``)."""
    return [files.read_json(path) for path in sorted(record.parent.glob("piece-*.json"))]


def write_costs(path: Path, costs: Mapping[str, Cost]) -> None:
    """Write one line per item: number of jobs, seconds of all of them, memory of the largest, loss evaluations."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item, cost in costs.items():
        measured = (cost.wall_seconds, cost.cpu_seconds, cost.peak_memory_mib)
        writer.writerow(
            [
                item,
                cost.jobs,
                *(round(number or 0.0, 2) for number in measured),
                " ".join(cost.devices),
                cost.evaluations,
            ]
        )
    files.write_text(path, buffer.getvalue())


def write_cards(path: Path, cards: Mapping[str, tuple[MetricCard, ...]]) -> None:
    """Write each different card once, and which of them each item has."""
    every = [card for own in cards.values() for card in own]
    different = [card for place, card in enumerate(every) if card not in every[:place]]
    content = {
        "cards": [{"metric": card.metric, "facts": dict(card.facts)} for card in different],
        "items": {item: [different.index(card) for card in own] for item, own in cards.items()},
    }
    files.write_json(path, content)


def _read_costs(path: Path) -> dict[str, Cost]:
    found = {}
    for line, cells in files.read_cells(path, COLUMNS, RESTORE):
        try:
            found[cells["item"]] = Cost(
                jobs=int(cells["jobs"]),
                wall_seconds=float(cells["wall_seconds"]),
                cpu_seconds=float(cells["cpu_seconds"]),
                peak_memory_mib=float(cells["peak_memory_mib"]),
                devices=tuple(cells["device"].split()),
                evaluations=int(cells["evaluations"]),
            )
        except ValueError as error:
            raise UserError(f"{path}, line {line}: {error}: {RESTORE}") from None
    return found


def _read_cards(path: Path) -> dict[str, tuple[MetricCard, ...]]:
    content = files.read_json(path)
    try:
        cards = [MetricCard(card["metric"], card["facts"]) for card in content["cards"]]
        return {item: tuple(cards[place] for place in places) for item, places in content["items"].items()}
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error!r}): {RESTORE}") from None
