"""From an item and its result table to its figure: which renderer draws it, and which numbers are kept beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure

from leaklab.items.items import FIGURES, Item
from leaklab.records import plugins
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import write_arrays
from leaklab.report.figures import curves_figure, diagram_figure, plane_figure, style, table_figure
from leaklab.report.judge.printed import Printed
from leaklab.report.numbers import series
from leaklab.report.numbers.results import AS_DESCRIBED, ResultRow, ResultTable
from leaklab.report.numbers.series import Floats
from leaklab.report.numbers.words import gaps, sampled, stand_ins
from leaklab.report.tables.layout import lay_out
from leaklab.report.tables.tables import sentence


@dataclass(frozen=True)
class Drawing:
    """A figure with what it shows.

    Attributes:
        figure: to be saved with ``style.save``.
        write: writes the numbers that it shows to an npz file.
        facts: for the record.
        foot: how much stands behind its numbers and what stood in for what; written below the figure.
        notes: what a table says itself, which the foot does not say again.
        left: where the foot begins, as a share of the width.
    """

    figure: Figure
    write: Callable[[Path], None]
    facts: Mapping[str, Any] = field(default_factory=dict)
    foot: str = ""
    notes: Sequence[str] = ()
    left: float = style.LEFT


class Renderer(Protocol):
    """A renderer plug-in: a frozen dataclass whose fields are its settings, under ``figure:`` of an item."""

    def draw(self, item: Item, results: ResultTable) -> tuple[Figure, Mapping[str, Floats]]:
        """Return the figure, and the numbers that it shows, each array under a name."""
        ...


def draw(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    """Draw an item.

    Args:
        item: with a renderer.
        scale: of the results; attacks also read the reconstructions of its runs.
        results: the item's result table.
        printed: the papers' numbers; shown beside the item's where it is a table.

    Raises:
        UserError: the renderer's section of the item's file is missing, or does not fit the results.
    """
    drawn = (_own if item.own_renderer else RENDERERS[item.renderer])(item, scale, results, printed)
    return replace(drawn, foot=foot_of(item, scale, results, drawn.notes))


def foot_of(item: Item, scale: Scale, results: ResultTable, notes: Sequence[str] = ()) -> str:
    """Return what stands behind curves and pictures, what stood in for what, and what the scale changed.

    Args:
        item: with a renderer.
        scale: of the results.
        results: the item's result table.
        notes: of the table, which may have said what stood in for what.
    """
    behind = _behind(item, results)
    replaced = "; ".join(one for one in stand_ins(results.rows) if not any(one in note for note in notes))
    # without a stand-in everything is as printed
    note = item.scales[scale].note.rstrip(".") if results.substitutes() and scale in item.scales else ""
    return " ".join(filter(None, [behind, replaced and f"Stand-ins: {replaced}.", note and f"Scale {scale}: {note}."]))


def _behind(item: Item, results: ResultTable) -> str:
    """Return how much stands behind a curve or was attacked in all; a table says it itself."""
    rows = results.select(variant=AS_DESCRIBED).rows
    if item.curves:
        counted = sampled(row for row in rows if row.metric in item.curves.metrics)
        return f"Behind a number: {counted}." if counted else ""
    if item.pictures or item.grid:
        counted = sampled(row for row in rows if row.attacker and "image" not in row.row)
        return f"Pictures: the first of {counted}." if counted else ""
    return ""


def _own(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    renderer: Renderer = plugins.load(FIGURES, item.renderer, item.figure)
    figure, numbers = renderer.draw(item, results)
    return Drawing(figure, partial(write_arrays, arrays=numbers))


def _attacks(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    from leaklab.report.figures import attack_pictures

    shots, pixels = attack_pictures.gather(item, scale, results)
    write = partial(attack_pictures.write, shots=shots, pixels=pixels)
    return Drawing(attack_pictures.draw(item, shots, pixels), write, {"pictures": len(pixels)})


def _defense_grid(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    from leaklab.report.figures import batch_panels, defense_grid, defense_pictures

    shots, layout = defense_pictures.gather(item, scale, results)
    panels = batch_panels.gather(item, scale) if item.pictures and item.pictures.batches else []
    figure = defense_grid.draw(shots, layout)
    if panels:
        batch_panels.draw_above(figure, panels)
    write = partial(write_arrays, arrays={**defense_grid.arrays(shots), **batch_panels.arrays(panels)})
    return Drawing(figure, write, {"pictures": len(shots)})


def _table(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    if item.table is None:
        raise _needs(item, "table")
    grid = lay_out(item.table, results, printed.beside(results, [item]))
    numbers = {name: _numbers(results.rows, name) for name in ("value", "std")}
    figure = table_figure.draw(grid, item.title)
    left = table_figure.MARGIN / figure.get_figwidth()
    return Drawing(figure, partial(write_arrays, arrays=numbers), notes=grid.notes, left=left)


def _curves(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    if item.curves is None:
        raise _needs(item, "curves")
    found = series.curves(item.curves, results)
    figure = curves_figure.draw(item.curves, found, item.title, _notes(results))
    return Drawing(figure, partial(write_arrays, arrays=curves_figure.arrays(item.curves, found)))


def _paths(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    if item.paths is None:
        raise _needs(item, "paths")
    found, marked = series.paths(item.paths, results), series.points(item.paths, results)
    figure = plane_figure.draw_paths(item.paths, found, marked, item.title, _notes(results))
    return Drawing(figure, partial(write_arrays, arrays=plane_figure.path_arrays(item.paths, found, marked)))


def _scatter(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    if item.scatter is None:
        raise _needs(item, "scatter")
    found = plane_figure.clouds(item.scatter, results)
    figure = plane_figure.draw_clouds(item.scatter, found, item.title, _notes(results))
    return Drawing(figure, partial(write_arrays, arrays=plane_figure.cloud_arrays(item.scatter, found)))


def _sentences(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    from leaklab.report.figures import sentences_figure

    if item.sentences is None:
        raise _needs(item, "sentences")
    found = sentences_figure.gather(item, scale, results)
    figure = sentences_figure.draw(item.sentences, found, item.title, _notes(results))
    return Drawing(figure, partial(sentences_figure.write, readings=found), {"readings": len(found)})


def _latent_line(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    from leaklab.report.figures import landscapes, line_figure

    lines, notes = landscapes.lines(item, results), landscapes.notes(item)
    figure = line_figure.draw(lines, item.title, [*notes, *_notes(results)], landscapes.words(item, results))
    return Drawing(figure, partial(write_arrays, arrays=line_figure.arrays(lines)))


def _latent_plane(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    from leaklab.report.figures import landscape_figure, landscapes

    planes, notes = landscapes.planes(item, results), landscapes.notes(item)
    words = landscapes.words(item, results)
    figure = landscape_figure.draw(planes, item.title, [*notes, *_notes(results)], words)
    return Drawing(figure, partial(write_arrays, arrays=landscape_figure.arrays(planes)))


def _diagram(item: Item, scale: Scale, results: ResultTable, printed: Printed) -> Drawing:
    if item.diagram is None:
        raise _needs(item, "diagram")
    bars = diagram_figure.bars(item.diagram, results)
    figure = diagram_figure.draw(item.diagram, bars, item.title)
    return Drawing(figure, partial(write_arrays, arrays=diagram_figure.arrays(bars)))


RENDERERS: dict[str, Callable[[Item, Scale, ResultTable, Printed], Drawing]] = {
    "image-grid": _attacks,
    "defense-grid": _defense_grid,
    "table": _table,
    "architecture": _table,
    "curves": _curves,
    "paths": _paths,
    "scatter": _scatter,
    "sentences": _sentences,
    "latent-line": _latent_line,
    "latent-plane": _latent_plane,
    "diagram": _diagram,
}


def _needs(item: Item, section: str) -> UserError:
    return UserError(f"config/items/{item.key}.yaml: renderer {item.renderer} needs a section '{section}'")


def _notes(results: ResultTable) -> list[str]:
    return [sentence(note) for note in gaps(results)]


def _numbers(rows: Sequence[ResultRow], name: str) -> Floats:
    values = [getattr(row, name) for row in rows]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
