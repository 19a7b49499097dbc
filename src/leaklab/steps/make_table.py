"""Collect an item's runs into its long result table and print it as Markdown and LaTeX."""

from leaklab.items.items import Item, load_item, with_missing
from leaklab.records.files import write_text
from leaklab.report.collect.item import collect
from leaklab.report.judge.printed import Printed
from leaklab.report.tables import tables
from leaklab.report.tables.layout import lay_out
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write the csv, and the table of the item's layout in two text forms."""
    item = with_missing(load_item(job.input("item")), job.spec["scale"], job.spec.get("missing", {}))
    results = collect(item, job.spec["scale"])
    results.write(job.outputs["csv"])
    caption = f"{item.title} (scale {job.spec['scale']})"
    printed = Printed.load(job.input("targets"), job.input("tolerances"))
    grid = lay_out(item.table, results, printed.beside(results, [item])) if item.table else None
    label = f"tab:{item.paper}-{item.item}"
    markdown, latex = (tables.markdown(grid, caption), tables.latex(grid, caption, label)) if grid else _pointer(item)
    write_text(job.outputs["markdown"], markdown)
    write_text(job.outputs["latex"], latex)
    job.note(rows=len(results.rows), substitutes=list(results.substitutes()))


def _pointer(item: Item) -> tuple[str, str]:
    """Return the line of Markdown and of LaTeX for an item whose numbers are drawn, not tabulated: where they are."""
    text = f"{item.title}: drawn, not tabulated; see {item.item}.png among the figures, and {item.item}.csv"
    return f"{text}\n", f"% {text}\n"


if __name__ == "__main__":
    main("make_table", run)
