"""What the first sentence of a paper is made of: the numbers of which attacks, and what attackers are granted."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import RootModel

from leaklab.records import files
from leaklab.records.config import parse, read_yaml
from leaklab.records.record import Record, Scalar
from leaklab.report.judge.names import name_in_words
from leaklab.report.numbers.results import RESTORE

HEADLINES = Path("config/papers/headlines.yaml")
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


class Headline(Record):
    """What stands first on a paper's pages.

    Attributes:
        defense: its name.
        setting: samples, steps and network of all lines, in words.
        lines: the attacks.
    """

    defense: str
    setting: str
    lines: tuple[HeadlineLine, ...]


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
