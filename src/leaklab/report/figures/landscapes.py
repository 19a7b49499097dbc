"""From the result table of a landscape to what its figure shows: one line or plane per defense and attacker.

Of several images the typical one is shown, whose correlation of loss and distance is the median; on a line the others
are thin. Panels of planted images, the control, come last.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from leaklab.items.items import Item
from leaklab.items.layouts import LandscapeLayout
from leaklab.records.errors import UserError
from leaklab.report.collect.landscapes import ALPHA, BETA, IMAGE, LOSS, PLANTED, PROFILED, RHO, SELECTION
from leaklab.report.figures.landscape_figure import Landscape
from leaklab.report.figures.latent_line import LatentLine, Words
from leaklab.report.numbers.results import INDEX, ResultRow, ResultTable
from leaklab.report.numbers.series import Floats
from leaklab.report.numbers.words import typical

Shown = TypeVar("Shown", LatentLine, Landscape)


@dataclass(frozen=True)
class _Panel:
    """The series of one defense and attacker by image and metric, each in the order of its points.

    Attributes:
        name: as shown.
        images: image -> metric -> values.
        correlations: image -> rank correlation of loss and distance; images without points are among them.
    """

    name: str
    images: dict[int, dict[str, Floats]]
    correlations: dict[int, float]

    @property
    def typical(self) -> int:
        return typical({image: self.correlations[image] for image in self.images})

    def others(self, metric: str) -> Floats:
        """Return a metric of all images but the typical one, [M, A]."""
        own = self.images[self.typical][metric]
        rest = [series[metric] for image, series in self.images.items() if image != self.typical]
        return np.array(rest).reshape(len(rest), own.size)


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
        own = panel.images[panel.typical]
        # where the attacker profiles out the scale the two curves are one
        profiled = own[PROFILED] if both and not np.array_equal(own[PROFILED], own[LOSS]) else None
        return LatentLine(
            panel.name,
            own[ALPHA],
            own[LOSS],
            own[distance],
            profiled,
            panel.others(LOSS),
            panel.others(distance),
            tuple(panel.correlations.values()),
        )

    return _shown(item, results, line)


def planes(item: Item, results: ResultTable) -> list[Landscape]:
    """Return one plane per defense and attacker; see ``lines``."""

    def plane(panel: _Panel, distance: str) -> Landscape:
        own = panel.images[panel.typical]
        alpha, beta = (np.unique(own[name]) for name in (ALPHA, BETA))
        loss, far = (own[name].reshape(alpha.size, beta.size) for name in (LOSS, distance))
        return Landscape(panel.name, alpha, beta, loss, far, tuple(panel.correlations.values()))

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
    return [make(panel, distance) for panel in _panels(_layout(item), results, RHO + distance)]


def _panels(layout: LandscapeLayout, results: ResultTable, correlation: str) -> Iterator[_Panel]:
    rows = [row for row in results.rows if row.is_point or (row.metric == correlation and IMAGE in row.row)]
    found = {str(row.row[layout.group]) for row in rows}
    order = [name for name in layout.labels.get(layout.group, {}) if name in found]
    for control, of_control in ("", ""), (PLANTED, ", planted"):
        for attacker, added in layout.attackers.items():
            for name in [*order, *sorted(found - set(order))]:
                keys = (attacker, name, control)
                own = [row for row in rows if (row.attacker, str(row.row[layout.group]), _control(row)) == keys]
                if own:
                    yield _panel(layout.label(layout.group, name) + added + of_control, own)


def _panel(name: str, rows: Sequence[ResultRow]) -> _Panel:
    series: dict[int, dict[str, dict[int, float]]] = {}
    for row in (row for row in rows if row.is_point):
        index, quantities = row.row[INDEX], series.setdefault(row.row[IMAGE], {})
        places = {key: row.row[key] for key in (ALPHA, BETA) if key in row.row}
        for metric, value in {**places, row.metric: row.value}.items():
            quantities.setdefault(metric, {})[index] = np.nan if value is None else value
    images = {
        image: {metric: np.array([of[i] for i in sorted(of)]) for metric, of in quantities.items()}
        for image, quantities in series.items()
    }
    return _Panel(name, images, {row.row[IMAGE]: row.value or 0.0 for row in rows if not row.is_point})


def _control(row: ResultRow) -> str:
    return str(row.row.get(SELECTION, ""))


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
