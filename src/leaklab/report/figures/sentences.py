"""What attackers read of private sentences, gathered from an item's runs and kept as npz beside its figure."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leaklab.metrics.text.recovery import TOKEN_RECOVERY_CARD, position_recovery
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.expand import expand
from leaklab.records.files import read_json, write_arrays
from leaklab.records.ids import run_folder, run_id
from leaklab.records.items import Item
from leaklab.records.layouts import SentencesLayout
from leaklab.records.text_specs import TextScoreSpec
from leaklab.report.collect.source import row_of
from leaklab.report.judge.worst_case import knowing_runs
from leaklab.report.numbers.results import ResultTable


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
