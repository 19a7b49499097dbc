"""One paper's results with what every claim asks of them again: rows by metric, images by setting, the worst case."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from leaklab.report.judge.worst_case import Setting, contested, setting_of, worst_case
from leaklab.report.numbers.results import ResultRow, ResultTable

IMAGES = ("image", "example")
SUMMARIES = ("_median", "_mean")


class Indexed:
    """A result table that is read once however many claims look at it."""

    def __init__(self, table: ResultTable):
        self.table = table

    @cached_property
    def by_metric(self) -> Mapping[tuple[str, str], list[ResultRow]]:
        """Return the rows of every (item, metric)."""
        found: dict[tuple[str, str], list[ResultRow]] = defaultdict(list)
        for row in self.table.rows:
            found[row.item, row.metric].append(row)
        return found

    @cached_property
    def strongest(self) -> "Indexed":
        """Return the same results under the strongest attacker of each setting."""
        return Indexed(worst_case(self.table))

    @cached_property
    def contested(self) -> frozenset[Setting]:
        """Return the settings in which more than one attacker was run."""
        return contested(self.table)

    def updates(self, row: ResultRow, images_per_update: int) -> int:
        """Return how many independent updates stand behind a number of an attack.

        Several draws of one image count once, and so do the images of one update. A table without single images says
        by ``n`` how many there are.

        Args:
            row: the number.
            images_per_update: images (sentences) that one update is made of.
        """
        if _image(row):
            return 1
        images = len(self._images.get(_summarised(row), ())) or row.n or 0
        return images // images_per_update

    @cached_property
    def _images(self) -> Mapping[Setting, set[str]]:
        found: dict[Setting, set[str]] = defaultdict(set)
        for row in self.table.rows:
            image = _image(row)
            if image:
                found[_summarised(row)].add(image)
        return found


def _image(row: ResultRow) -> str:
    """Return which image or sentence a row is about; empty for a summary."""
    return " ".join(f"{key} {row.row[key]}" for key in IMAGES if key in row.row)


def _summarised(row: ResultRow) -> Setting:
    """Return the setting of a row, the same for single images and for their summary."""
    metric = row.metric
    for suffix in SUMMARIES:
        metric = metric.removesuffix(suffix)
    return setting_of(replace(row, metric=metric))
