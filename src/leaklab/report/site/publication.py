"""What the runs of a scale leave beside its results, for a checkout without runs: costs, metric cards and deals."""

import csv
import io
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.provenance.packing import SUFFIX
from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.ledger import Entry, Ledger
from leaklab.report.numbers.words import unavailable

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
    """Return what was published in ``results/<scale>`` of items that still have the table that it was published with.

    Their runs are the same then, whether the figure was drawn anew or not.

    Args:
        folder: of the scale's results.
        figures: item -> its figure.
    """
    before, record = Published.load(folder), folder / RECORD
    shown = files.read_json(record)["inputs"] if record.is_file() else {}
    tables = {item: Path("results", *path.parts[1:]).with_suffix(".run.json") for item, path in figures.items()}
    same = [
        item
        for item, table in tables.items()
        if item in before.costs and table.is_file() and shown.get(table.as_posix()) == files.sha256(table)
    ]
    return Published({item: before.costs[item] for item in same}, {item: before.cards.get(item, ()) for item in same})


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


# The metric cards of an item, from the records of its scores.

ACCURACY = MetricCard(
    "test_accuracy",
    {
        "domain": "global model after the last round, official test part, in percent",
        "averaging": "mean over seeds; spread is the sample standard deviation (n - 1), and from six seeds on there is "
        "Student's 95 % interval",
        "diverged": "replicates whose loss is no longer finite are counted under diverged_runs and left out",
    },
)


def cards_of(entries: Sequence[Entry], root: Path = Path()) -> tuple[MetricCard, ...]:
    """Return each card once; metrics that could not be computed say why.

    Args:
        entries: the jobs' records.
        root: folder below which their files lie.
    """
    cards: dict[str, MetricCard] = {}
    for entry in entries:
        if entry.rule == "train_federated":
            cards[ACCURACY.metric] = ACCURACY
        for path in entry.outputs if entry.rule in ("score_attack", "score_text", "map_landscape") else ():
            if Path(path).name == "cards.json":
                cards |= _from_file(root / path)
    return tuple(cards.values())


def _from_file(path: Path) -> dict[str, MetricCard]:
    content = read_json(path)
    found = {
        name: MetricCard(
            name, {key: str(value) for key, value in facts.items() if key != "name" and value not in ("", None)}
        )
        for name, facts in content["metrics"].items()
    }
    absent = {name: MetricCard(name, {"not available": why}) for name, why in unavailable(content).items()}
    return {**found, **absent}


# What the runs behind an item took, from the records that are packed beside its table (``provenance/packing.py``).


def published_now(folder: Path, figures: Mapping[str, Path], ledger: Ledger) -> Published:
    """Return cost and cards of every item: from its runs, else from its archive, else as they were published.

    An item whose runs are nowhere, and whose table is another than the published one, is not in them.

    Args:
        folder: of the scale's results.
        figures: item (``lrp/table1``) -> its figure.
        ledger: the records of this checkout.

    Raises:
        UserError: see ``of_archive``; a published file is damaged.
    """
    lacking = {item for item, path in figures.items() if lacks_runs(ledger, path)}
    packed = {item: folder / f"{item}{SUFFIX}" for item in lacking if (folder / f"{item}{SUFFIX}").is_file()}
    kept = still_published(folder, {item: figures[item] for item in figures if item in lacking - packed.keys()})
    costs, cards = {}, {}
    for item, path in figures.items():
        if item in kept.costs:
            costs[item], cards[item] = kept.costs[item], kept.cards[item]
        elif item in packed:
            costs[item], cards[item] = of_archive(packed[item], path)
        elif item not in lacking:
            entries = ledger.behind(path.as_posix()).entries
            costs[item], cards[item] = cost_of(entries), cards_of(entries)
    return Published(costs, cards)


def of_archive(archive: Path, figure: Path) -> tuple[Cost, tuple[MetricCard, ...]]:
    """Return cost and metric cards of the item of a figure, ``figures/<scale>/<paper>/<item>.png``.

    The records of its table and figure are those of the checkout; those of runs and data are the archive's.

    Raises:
        UserError: the archive is damaged, or is not of the runs that the table was made of.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(root)
        except (OSError, zipfile.BadZipFile) as error:
            raise UserError(f"{archive} is damaged ({error}): get it again, or delete it") from None
        for record in (figure.with_suffix(".run.json"), Path("results", *figure.parts[1:]).with_suffix(".run.json")):
            (root / record).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(record, root / record)
        ledger = Ledger.scan(root)
        if lacks_runs(ledger, figure):
            raise UserError(f"{archive}: not of the runs that {figure} rests on: `leaklab pack` where they are")
        entries = ledger.behind(figure.as_posix()).entries
        return cost_of(entries, root), cards_of(entries, root)
