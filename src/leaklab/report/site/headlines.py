"""What the first sentence of a paper is made of: the numbers of which attacks, and what attackers are granted."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import RootModel

from leaklab.records import files
from leaklab.records.config import parse, read_yaml
from leaklab.records.record import Record, Scalar
from leaklab.report.judge.terms import name_in_words
from leaklab.report.numbers.results import BLIND, KNOWING, PAPER, RESTORE
from leaklab.report.numbers.words import NONE

HEADLINES = Path("config/papers/headlines.yaml")
ON_STAND_INS = "On stand-in data, which decide nothing about the paper: "
"""How the sentence begins at scale ``demo``."""
Grants = Mapping[tuple[str, str, str, str], tuple[bool, str]]
"""(paper, item, row, attacker) -> whether labels are granted, and whose public data; of ``threat-models.csv``."""


class HeadlineLine(Record):
    """One attack: where its numbers stand.

    Attributes:
        attacker: of the paper, by its name.
        dataset: what was attacked.
        setting: samples, steps and network, in words.
        hides: what the defense is made to hide from it, in words.
        item: whose result table has the numbers.
        metric: of the numbers, none in decibels.
        shown: the metric in words.
        row: keys that all of its rows have.
        undefended: further keys without defense.
        defended: further keys with it.
        guesses: guesses that need no update; the best that the table has counts.
    """

    attacker: str
    dataset: str
    setting: str
    hides: str
    item: str
    metric: str
    shown: str
    row: dict[str, Scalar]
    undefended: dict[str, Scalar]
    defended: dict[str, Scalar]
    guesses: tuple[str, ...]

    @property
    def attack(self) -> str:
        """Who attacked what: ``DLG on MNIST``."""
        return f"{self.attacker} on {name_in_words(self.dataset)}"

    @property
    def summary(self) -> str:
        """Whether the numbers are medians."""
        return "in the median" if self.metric.endswith("_median") else "on average"


class Strip(Record):
    """Four pictures of one image, by their names in an item's figure; ``{image}`` stands for one of ``images``.

    Attributes:
        item: whose figure has them.
        of: what they are of, in words.
        leaks: PSNR in dB from which on a picture counts as read; of that of a guess there is less.
        images: those that the figure has of the headline's attack.
        original: what the client holds.
        undefended: what the paper's attacker reads without a defense.
        paper: what he reads under it.
        knowing: what the strongest attacker reads who knows it.
    """

    item: str
    of: str
    leaks: float
    images: tuple[str, ...]
    original: str
    undefended: str
    paper: str
    knowing: str


class Headline(Record):
    """What stands first on a paper's pages.

    Attributes:
        defense: its name.
        setting: samples, steps and network of all lines, in words.
        lines: the attacks.
        strip: its first pictures; None for none.
    """

    defense: str
    setting: str
    lines: tuple[HeadlineLine, ...]
    strip: Strip | None = None


class _Headlines(RootModel[dict[str, Headline]]):
    """Paper -> its headline."""


def load_headlines(path: Path = HEADLINES) -> Mapping[str, Headline]:
    """Return paper -> headline; empty where there is no such file.

    Raises:
        UserError: the file is wrong.
    """
    return parse(_Headlines, read_yaml(path), path).root if path.is_file() else {}


def read_grants(path: Path) -> Grants:
    """Return what each attacker's row was granted; empty where ``threat-models.csv`` is not there.

    Raises:
        UserError: the file is damaged.
    """
    columns = ("paper", "item", "row", "attacker", "labels_granted", "public_data")
    lines = (cells for _, cells in files.read_cells(path, columns, RESTORE)) if path.is_file() else ()
    return {tuple(line[c] for c in columns[:4]): (line[columns[4]] == "yes", line[columns[5]]) for line in lines}  # type: ignore[misc]


# The words of the pages for what result tables and specs abbreviate.

PAPER_ATTACKER = "paper's attacker"
KNOWING_ATTACKER = "attacker who knows the defense"
BLIND_ATTACKER = "paper's attack without its own transforms"
ATTACKERS = {PAPER: PAPER_ATTACKER, BLIND: BLIND_ATTACKER, KNOWING: KNOWING_ATTACKER}
"""The attackers of a result table, by the name that stands in its column."""
STRONGEST_ATTACKER = "strongest attacker tried"
"""Its name where nobody among those who were tried was made for the defense."""


def attackers_of(strangers: Collection[str]) -> Mapping[str, str]:
    """Return the attackers' names on a page; ``strangers`` are its defenses for which no attack was made."""
    return {**ATTACKERS, KNOWING: STRONGEST_ATTACKER} if strangers else ATTACKERS


def nobody_knows(defense: str) -> str:
    """Return the sentence about a defense for which no attack that was tried was made."""
    return f"No attacker here was made for {defense}: what all of them miss, one who knows it may read."


# The settings of an item at every scale, and what a scale changes, as lines of a table.


@dataclass(frozen=True)
class SettingLine:
    """One setting at every scale; ``changed`` where this scale departs from the paper's."""

    name: str
    values: tuple[str, ...]
    changed: bool


def setting_lines(settings: Mapping[str, Mapping[str, Any]], scale: str) -> tuple[SettingLine, ...]:
    """Return one line per setting with its value at every scale, changed ones first.

    Args:
        settings: by scale, in the order of the columns.
        scale: the scale that is compared with ``paper``.
    """
    flat = {name: _flatten(values) for name, values in settings.items()}
    names = dict.fromkeys(key for values in flat.values() for key in values)
    lines = [
        SettingLine(
            name=name,
            values=tuple(values.get(name, NONE) for values in flat.values()),
            changed=flat.get(scale, {}).get(name) != flat.get("paper", {}).get(name),
        )
        for name in names
    ]
    return tuple(sorted(lines, key=lambda line: not line.changed))


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{name}.")
        else:
            flat[name] = _shown(value)
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(f"({_shown(part)})" if isinstance(part, list | tuple) else _shown(part) for part in value)
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
