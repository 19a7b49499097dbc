"""Draw an item's figure from its result table (and, for figures of attacks, from the reconstructions)."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import write_arrays
from leaklab.records.items import Item, load_item
from leaklab.report import attack_figure, attack_pictures, curves_figure, paths_figure, series, style, table_figure
from leaklab.report.gaps import gaps
from leaklab.report.layout import lay_out
from leaklab.report.printed import Printed
from leaklab.report.results import ResultRow, ResultTable
from leaklab.report.tables import sentence
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write png, pdf and the data that the figure shows."""
    item = load_item(job.input("item"))
    results = ResultTable.read(job.input("csv"))
    figure = DRAW[item.renderer](job, item, results)
    style.save(figure, job.outputs["png"], job.outputs["pdf"])


def _attacks(job: Job, item: Item, results: ResultTable) -> Figure:
    scale: Scale = job.spec["scale"]
    shots, pixels = attack_pictures.gather(item, scale, results)
    attack_pictures.write(job.outputs["data"], shots, pixels)
    job.note(pictures=len(pixels))
    return attack_figure.draw(item, shots, pixels)


def _table(job: Job, item: Item, results: ResultTable) -> Figure:
    if item.table is None:
        raise UserError(f"config/items/{item.key}.yaml: renderer {item.renderer} needs a 'table'")
    printed = Printed.load(job.input("targets"), job.input("tolerances"))
    grid = lay_out(item.table, results, printed.beside(results, [item]))
    write_arrays(job.outputs["data"], {name: _numbers(results.rows, name) for name in ("value", "std")})
    return table_figure.draw(grid, _title(job, item))


def _curves(job: Job, item: Item, results: ResultTable) -> Figure:
    if item.curves is None:
        raise UserError(f"config/items/{item.key}.yaml: renderer curves needs a section 'curves'")
    found = series.curves(item.curves, results)
    write_arrays(job.outputs["data"], curves_figure.arrays(item.curves, found))
    return curves_figure.draw(item.curves, found, _title(job, item), _notes(results))


def _paths(job: Job, item: Item, results: ResultTable) -> Figure:
    if item.paths is None:
        raise UserError(f"config/items/{item.key}.yaml: renderer paths needs a section 'paths'")
    found, marked = series.paths(item.paths, results), series.points(item.paths, results)
    write_arrays(job.outputs["data"], paths_figure.arrays(item.paths, found, marked))
    return paths_figure.draw(item.paths, found, marked, _title(job, item), _notes(results))


def _title(job: Job, item: Item) -> str:
    return f"{item.title} (scale {job.spec['scale']})"


def _notes(results: ResultTable) -> list[str]:
    return [sentence(note) for note in gaps(results)]


def _numbers(rows: Sequence[ResultRow], name: str) -> NDArray[np.float64]:
    values = [getattr(row, name) for row in rows]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


DRAW: dict[str, Callable[[Job, Item, ResultTable], Figure]] = {
    "image-grid": _attacks,
    "table": _table,
    "architecture": _table,
    "curves": _curves,
    "paths": _paths,
}


if __name__ == "__main__":
    main("make_figure", run)
