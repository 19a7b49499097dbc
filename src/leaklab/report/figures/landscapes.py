"""From the result table of a landscape to what its figure shows: one line or plane per defense and attacker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from leaklab.metrics.latent_landscape import LOSS, PROFILED
from leaklab.records.errors import UserError
from leaklab.records.items import Item
from leaklab.records.layouts import LandscapeLayout
from leaklab.report.figures.landscape_figure import Landscape
from leaklab.report.figures.line_figure import LatentLine, Words
from leaklab.report.numbers.results import INDEX, ResultTable
from leaklab.report.numbers.series import Floats

ALPHA, BETA = "alpha", "beta"
Shown = TypeVar("Shown", LatentLine, Landscape)


@dataclass(frozen=True)
class _Panel:
    """The series of one defense and attacker by metric, each in the order of its points."""

    name: str
    series: dict[str, Floats]


def lines(item: Item, results: ResultTable) -> list[LatentLine]:
    """Return one line per defense and attacker, the paper's attacker first.

    Args:
        item: with a section ``landscape``.
        results: its result table.

    Raises:
        UserError: the section is missing, or no distance was computed.
    """
    both = _layout(item).profiled

    def line(panel: _Panel, distance: str) -> LatentLine:
        own = panel.series
        # where the attacker profiles out the scale the two curves are one
        profiled = own[PROFILED] if both and not np.array_equal(own[PROFILED], own[LOSS]) else None
        return LatentLine(panel.name, own[ALPHA], own[LOSS], own[distance], profiled)

    return _shown(item, results, line)


def planes(item: Item, results: ResultTable) -> list[Landscape]:
    """Return one plane per defense and attacker; see ``lines``."""

    def plane(panel: _Panel, distance: str) -> Landscape:
        alpha, beta = (np.unique(panel.series[name]) for name in (ALPHA, BETA))
        loss, far = (panel.series[name].reshape(alpha.size, beta.size) for name in (LOSS, distance))
        return Landscape(panel.name, alpha, beta, loss, far)

    return _shown(item, results, plane)


def words(item: Item, results: ResultTable) -> Words:
    """Return how the quantities are called."""
    distance = _distance(item, results)
    return Words(distance=_layout(item).title(distance))


def notes(item: Item) -> list[str]:
    """Return what is explained below the figure."""
    return [note for note in (_layout(item).note,) if note]


def _shown(item: Item, results: ResultTable, make: Callable[[_Panel, str], Shown]) -> list[Shown]:
    distance = _distance(item, results)
    return [make(panel, distance) for panel in _panels(_layout(item), results)]


def _panels(layout: LandscapeLayout, results: ResultTable) -> Iterator[_Panel]:
    points = [row for row in results.rows if row.is_point]
    found = {str(row.row[layout.group]) for row in points}
    order = [name for name in layout.labels.get(layout.group, {}) if name in found]
    for attacker, added in layout.attackers.items():
        for name in [*order, *sorted(found - set(order))]:
            own = [row for row in points if row.attacker == attacker and str(row.row[layout.group]) == name]
            series: dict[str, dict[int, float]] = {}
            for row in own:
                series.setdefault(row.metric, {})[row.row[INDEX]] = np.nan if row.value is None else row.value
            if series:
                ordered = {metric: np.array([of[i] for i in sorted(of)]) for metric, of in series.items()}
                yield _Panel(layout.label(layout.group, name) + added, ordered)


def _distance(item: Item, results: ResultTable) -> str:
    computed = {row.metric for row in results.rows if row.is_point}
    for name in _layout(item).distance:
        if name in computed:
            return name
    raise UserError(f"{item.key}: none of the distances {', '.join(_layout(item).distance)} was computed: choose a "
                    "metric whose weights are at hand")  # fmt: skip


def _layout(item: Item) -> LandscapeLayout:
    if item.landscape is None:
        raise UserError(f"config/items/{item.key}.yaml: renderer {item.renderer} needs a section 'landscape'")
    return item.landscape
