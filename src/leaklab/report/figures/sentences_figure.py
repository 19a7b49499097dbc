"""Private sentences, and what each attacker read, word by word."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.items.layouts import SentencesLayout
from leaklab.metrics.text.scoring import TOKEN_RECOVERY_CARD, position_recovery
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_arrays
from leaklab.report.collect.source import row_of
from leaklab.report.figures.style import DOTS_PER_INCH, FAINT, INK, PAGE_WIDTH, PALETTE, QUIET, SMALLEST_FONT, styled
from leaklab.report.judge.attackers import knowing_runs
from leaklab.report.numbers.results import ResultTable
from leaklab.specs.base import run_folder, run_id
from leaklab.specs.text import TextScoreSpec

# What attackers read of private sentences, gathered from an item's runs and kept as npz beside its figure.


@dataclass(frozen=True)
class Reading:
    """What one attacker read of one sentence.

    Attributes:
        example: number of the sentence.
        text: as published.
        group: value of the layout's group key (the defense).
        attack: its name.
        worst: whether it is the strongest of the attacks that were tried in its cell.
        factor: rate that the client drew over the rate that the server assumes.
        private: tokens of the sentence.
        read: tokens of the output.
    """

    example: int
    text: str
    group: str
    attack: str
    worst: bool
    factor: float
    private: tuple[str, ...]
    read: tuple[str, ...]

    @property
    def hits(self) -> tuple[bool, ...]:
        """For each token of the output, whether it is one of the sentence; each counts as often as it is there."""
        left = Counter(self.private)
        found = []
        for token in self.read:
            found.append(left[token] > 0)
            left[token] -= 1
        return tuple(found)

    @property
    def in_place(self) -> int:
        """Number of the sentence's tokens that the output has in the same place."""
        return round(position_recovery(self.read, self.private) * len(self.private))


def gather(item: Item, scale: Scale, results: ResultTable) -> list[Reading]:
    """Return the readings by sentence, group and attacker: in the order of the result table, the paper's first.

    Raises:
        UserError: the layout's group is no key of the item's rows, or a file is missing.
    """
    assert item.sentences is not None
    order = list(dict.fromkeys(name for row in results.rows for name in row.runs))
    worst = knowing_runs(results, item.headline or TOKEN_RECOVERY_CARD.name)
    found: list[tuple[int, int, Reading]] = []
    for run in expand(item, scale):
        if isinstance(run.spec, TextScoreSpec):
            name = run_id(run.spec)
            keys = row_of(item, run)
            if item.sentences.group not in keys:
                raise UserError(f"config/items/{item.key}.yaml: sentences.group: rows have {', '.join(keys)}")
            group = str(keys[item.sentences.group])
            readings = _readings(item.sentences, run.spec, group, name in worst)
            found += [(reading.example, order.index(name), reading) for reading in readings]
    return [reading for _, _, reading in sorted(found, key=lambda one: one[:2])]


def write(path: Path, readings: Sequence[Reading]) -> None:
    """Write the readings as one JSON text inside an npz archive."""
    text = json.dumps([asdict(reading) for reading in readings], sort_keys=True)
    write_arrays(path, {"readings": np.frombuffer(text.encode(), dtype=np.uint8)})


def _readings(layout: SentencesLayout, spec: TextScoreSpec, group: str, worst: bool) -> list[Reading]:
    trials: list[dict[str, Any]] = read_json(run_folder(spec) / "texts.json")["trials"]
    draws = spec.attack.capture.draws
    shown = [
        trial
        for trial in trials
        if trial["example"] <= layout.examples and trial["draw"] == (trial["example"] - 1) % draws
    ]
    return [
        Reading(
            example=trial["example"],
            text=trial["text"],
            group=group,
            attack=spec.attack.attack.name,
            worst=worst,
            factor=trial["factor"],
            private=tuple(trial["private"]),
            read=tuple(trial["read"]),
        )
        for trial in shown
    ]


MARGIN = 0.05
LINE = SMALLEST_FONT * 1.5 / 72
GAP = 0.09
# mean advance of small letters; that of every letter of the fixed-width font
LETTER, FIXED = (SMALLEST_FONT * part / 72 for part in (0.53, 0.605))
TITLE_SIZE = SMALLEST_FONT + 2
TITLE_LINE = TITLE_SIZE * 1.3 / 72
WIDTH = PAGE_WIDTH - 2 * MARGIN
LABEL_WIDTH, COUNT_WIDTH = 1.75, 0.62
INDENT = 0.15
TEXT_LEFT, TEXT_RIGHT = LABEL_WIDTH, WIDTH - 2 * COUNT_WIDTH - 0.1
FIXED_FONT = "DejaVu Sans Mono"
LEGEND = (
    "Blue and bold: a token of the sentence, as often as it occurs there. Gray: not in the sentence. Found: tokens of "
    "the sentence that the output has, in any order; in place: at the right place."
)


def draw(layout: SentencesLayout, readings: Sequence[Reading], title: str, notes: Sequence[str] = ()) -> Figure:
    """Draw the readings of ``sentences.gather`` at page width.

    Args:
        layout: labels of groups and attacks.
        readings: by sentence and group.
        title: shown above.
        notes: shown below, besides the legend and the layout's note.
    """
    with styled():
        return _Drawing(layout, readings, title, notes).figure


class _Drawing:
    """One drawing in inches, the origin at the top left, y downwards; drawn once to learn its height."""

    def __init__(self, layout: SentencesLayout, readings: Sequence[Reading], title: str, notes: Sequence[str]) -> None:
        self.layout, self.readings = layout, readings
        self.title = wrap(title, int(WIDTH / (LETTER * TITLE_SIZE / SMALLEST_FONT * 1.1)))
        below = [LEGEND, *([layout.note] if layout.note else []), *notes]
        self.notes = [line for note in below for line in wrap(note, int(WIDTH / LETTER), break_on_hyphens=False)]
        self.axes: Axes | None = None
        height = self._all()
        self.figure = Figure(figsize=(PAGE_WIDTH, height + MARGIN), dpi=DOTS_PER_INCH)
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_xlim(-MARGIN, WIDTH + MARGIN)
        self.axes.set_ylim(height + MARGIN, 0)
        self.axes.set_axis_off()
        self._all()

    def _all(self) -> float:
        """Draw everything, or only measure it while there are no axes; return the height."""
        y = 0.15
        for line in self.title:
            self._text(0, y, line, weight="bold", size=TITLE_SIZE)
            y += TITLE_LINE
        for number, (_, of_example) in enumerate(groupby(self.readings, key=lambda reading: reading.example)):
            y = self._example(list(of_example), y + (GAP if number else 0.0), heads=number == 0)
        y += 0.04
        self._rule(y, 1.2)
        y += GAP + LINE / 2
        for note in self.notes:
            self._text(0, y, note, color=QUIET)
            y += LINE
        return y

    def _example(self, readings: list[Reading], y: float, heads: bool) -> float:
        self._rule(y, 1.2)
        y += LINE / 2 + 0.05
        self._text(0, y, f"Sentence {readings[0].example}", weight="bold")
        if heads:
            for place, name in enumerate(("found", "in place")):
                self._text(WIDTH - COUNT_WIDTH * (1 - place), y, name, color=QUIET, align="right")
        y = self._words([(word, INK, "bold") for word in readings[0].text.split()], y) + LINE
        for (_, factor), of_group in groupby(readings, key=lambda reading: (reading.group, reading.factor)):
            group = list(of_group)
            self._rule(y - LINE / 2, 0.35)
            y += 0.04
            self._text(0, y, self._heading(group[0].group, factor), weight="bold", color=QUIET)
            y += LINE
            for reading in group:
                y = self._reading(reading, y) + LINE
        return y - LINE / 2

    def _heading(self, group: str, factor: float) -> str:
        name = self.layout.label(self.layout.group, group)
        return name if abs(factor - 1) < 1e-9 else f"{name}: the rate drawn is {factor:.2f} times the one assumed"

    def _reading(self, reading: Reading, y: float) -> float:
        self._text(INDENT, y, self.layout.label("attack", reading.attack) + (" *" if reading.worst else ""))
        hits = reading.hits
        for place, count in enumerate((sum(hits), reading.in_place)):
            text = f"{count} of {len(reading.private)}"
            self._text(WIDTH - COUNT_WIDTH * (1 - place), y, text, align="right")
        looks = {True: (PALETTE[0], "bold"), False: (FAINT, "normal")}
        return self._words([(word, *looks[hit]) for word, hit in zip(reading.read, hits, strict=True)], y)

    def _words(self, words: Sequence[tuple[str, str, str]], y: float) -> float:
        """Write words from left to right, in as many lines as they need; return the last line's y."""
        x = TEXT_LEFT
        for word, color, weight in words:
            if x > TEXT_LEFT and x + len(word) * FIXED > TEXT_RIGHT:
                x, y = TEXT_LEFT, y + LINE
            self._text(x, y, word, weight=weight, color=color, font=FIXED_FONT)
            x += (len(word) + 1) * FIXED
        return y

    def _text(self, x: float, y: float, text: str, weight: str = "normal", color: str = INK, align: str = "left",
              size: float = SMALLEST_FONT, font: str | None = None) -> None:  # fmt: skip
        if self.axes is not None:
            # a dollar sign is a token here, not the beginning of a formula
            self.axes.text(x, y, text, fontsize=size, fontweight=weight, color=color, ha=align, va="center",
                           fontfamily=font, parse_math=False)  # fmt: skip

    def _rule(self, y: float, thick: float) -> None:
        if self.axes is not None:
            self.axes.plot([0, WIDTH], [y, y], color=INK, linewidth=thick)
