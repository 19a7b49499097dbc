"""From the tables of the other benchmarks to one row for each goal; nothing is measured here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import pandas as pd
from time_to_picture.cases import CASES, GOAL_LEVEL
from time_to_picture.contestants import CONTESTANTS
from time_to_picture.rows import compared
from time_to_picture.rows import rows as rows_to_picture

OURS, PLAIN, BREACHING = "ours", "plain", "breaching"
SWEEP_GOAL, SHARE_GOAL, ATTACK_GOAL, NEVER_BEHIND = 5.0, 0.5, 3.0, 1.0
ITEMS_GOAL, REPORT_GOAL, SMALL_GOAL, FACTOR, FACTOR_GOAL = 0.5, 5.0, 5.0, 2.0, 1.0
DEMO_GOAL, TEST_GOAL, CORES = 180.0, 720.0, 2
THOUSAND = 1000


@dataclass(frozen=True)
class Row:
    """A goal and what was measured.

    Attributes:
        part: heading under which it stands.
        what: in words.
        goal: the number.
        value: the same, measured; NaN where it was not.
        unit: ``x`` (times a peer), ``%``, ``s`` or ``h``.
        at_most: whether less is better.
        peer: beside whom; empty: nobody.
        share: of the processor's peak, in percent; NaN where that says nothing.
        missed: key of the words on what stands between (``missed.py``).
    """

    part: str
    what: str
    goal: float
    value: float
    unit: str
    at_most: bool = False
    peer: str = ""
    share: float = float("nan")
    missed: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where nothing was measured."""
        if self.value != self.value:
            return None
        # a number of a table is one of numpy's, and so is what it compares to
        return bool(self.value <= self.goal if self.at_most else self.value >= self.goal)


def every_row(folder: Path) -> list[Row]:
    """Return the rows of all tables in a folder; what was not measured has no number."""
    return [*pictures(folder), *training(folder), *attacks(folder), *commands(folder), *whole(folder)]


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def pictures(folder: Path) -> Iterator[Row]:
    """Yield the goals of the time to a picture, at 25 dB."""
    table = _read(folder / "time_to_picture.csv")
    found = rows_to_picture(table, CASES, CONTESTANTS) if len(table) else []
    for case in CASES:
        for together, counted, goal in (
            (False, False, case.goal), (False, True, NEVER_BEHIND), (True, True, case.goal),
        ):  # fmt: skip
            if goal is None:
                continue
            way, prior = "side by side" if together else "alone", "counted" if counted else "excluded"
            yield Row(
                "Time to a picture of 25 dB", f"{case.title}, {way}, prior {prior}", goal,
                compared(found, case, together=together).ratio(GOAL_LEVEL, prior=counted), "x",
                peer="the best peer", missed=f"picture {case.name}",
            )  # fmt: skip


def _medians(table: pd.DataFrame, column: str, per: str) -> dict[tuple[str, str], float]:
    if not len(table):
        return {}
    good = table[table["reason"].isna()]
    seconds = good[column].astype(float) / good[per].astype(float)
    found = seconds.groupby([good["workload"], good["contestant"]]).median()
    return {(str(one), str(other)): float(value) for (one, other), value in found.items()}


def _ratio(medians: dict[tuple[str, str], float], workload: str, peer: str) -> float:
    return medians.get((workload, peer), float("nan")) / medians.get((workload, OURS), float("nan"))


def training(folder: Path) -> Iterator[Row]:
    """Yield the goals of convolutional networks in training."""
    medians = _medians(_read(folder / "training.csv"), "cpu", "steps")
    for workload, words in (("w1-cnn-sweep", "sweep of the CNN 10/20/50"), ("w1-cnn-cell", "one cell of it")):
        goal = SWEEP_GOAL if workload == "w1-cnn-sweep" else NEVER_BEHIND
        value = _ratio(medians, workload, PLAIN)
        yield Row("Convolutions", words, goal, value, "x", peer="a plain loop", missed="sweep")
    table = _read(folder / "roofline.csv")
    for case, own in table.groupby("case", sort=False) if len(table) else ():
        share = own["product"].sum() / own["seconds"].sum()
        words = f"step of {case}, beside products of its shapes"
        yield Row("Convolutions", words, 100 * SHARE_GOAL, 100 * share, "%", share=100 * share, missed="share")


ATTACKS = {
    "a1-dlg-4": "DLG on the LeNet, 4 trials", "a1-dlg-10": "DLG on the LeNet, 10 trials",
    "a2-ig-lenet": "IG on the LeNet, 4 trials", "a2-dlg-cnn": "DLG on the CNN, 4 trials",
    "a2-ig-cnn": "IG on the CNN, 4 trials", "a2-ig": "IG on ResNet-18, 4 trials",
}  # fmt: skip


def attacks(folder: Path) -> Iterator[Row]:
    """Yield the goals of double backward passes."""
    medians = _medians(_read(folder / "attacks.csv"), "cpu", "iterations")
    for workload, words in ATTACKS.items():
        value = _ratio(medians, workload, BREACHING)
        yield Row("Double backward", words, ATTACK_GOAL, value, "x", peer=BREACHING, missed=f"attack {workload}")


COMMANDS = {"`leaklab items`": ITEMS_GOAL, "`leaklab report --scale small` without its folder": REPORT_GOAL}
"""As ``operations`` calls them, with the seconds of processor time."""


def commands(folder: Path) -> Iterator[Row]:
    """Yield the goals of commands that only look."""
    table = _read(folder / "operations.csv")
    for what, goal in COMMANDS.items():
        own = table[table["what"] == what]["value"] if len(table) else ()
        value = float(own.iloc[0]) if len(own) else float("nan")
        yield Row("Small jobs", what, goal, value, "s", at_most=True, missed="commands")


def whole(folder: Path) -> Iterator[Row]:
    """Yield the goals of whole campaigns, of predictions, and of what a stranger waits for."""
    table = _read(folder / "small_hours.csv")
    hours = float(table[table["by"] == "all"]["hours"].iloc[0]) / CORES if len(table) else float("nan")
    words = "everything at scale small from nothing, on 2 cores"
    yield Row("The whole", words, SMALL_GOAL, hours, "h", at_most=True, missed="small")
    then = _read(folder / "small_hours_gained.csv")
    hours = float(then[then["name"] == "all"]["hours_then"].iloc[0]) / CORES if len(then) else float("nan")
    words = "the same, estimated with what jobs like them gained since"
    yield Row("The whole", words, SMALL_GOAL, hours, "h", at_most=True, missed="small")
    items = _read(folder / "growth_items.csv")
    if len(items):
        off = items["likely_seconds"] / items["measured_seconds"]
        within = ((off <= FACTOR) & (off >= 1 / FACTOR)).mean()
    else:
        within = float("nan")
    words = "items of scale small whose prediction is within a factor of 2 of what they took"
    yield Row("The whole", words, 100 * FACTOR_GOAL, 100 * within, "%", missed="prediction")
    waited = _read(folder / "goals.csv")
    for what, goal in (("make demo", DEMO_GOAL), ("make test", TEST_GOAL)):
        own = waited[waited["what"] == what]["seconds"] if len(waited) else ()
        value = float(own.iloc[-1]) if len(own) else float("nan")
        yield Row("The whole", f"`{what}`, after installation", goal, value, "s", at_most=True, missed=what)


def missed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose goal was measured and not reached."""
    return [row for row in rows if row.met is False]


def shown(value: float) -> str:
    """Return a number with three digits, or in whole numbers from a thousand on; ``∞``, or ``-``."""
    if value != value:
        return "-"
    if not isfinite(value):
        return "∞"
    return f"{value:,.0f}" if value >= THOUSAND else f"{value:.3g}"
