"""Collect an item's runs into its long result table and print it as Markdown and LaTeX."""

from leaklab.records.files import write_text
from leaklab.records.items import load_item, with_missing
from leaklab.report.collect.item import collect
from leaklab.report.judge.printed import Printed
from leaklab.report.numbers.gaps import gaps
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
    notes = [tables.sentence(note) for note in gaps(results)]
    write_text(job.outputs["markdown"], tables.markdown(grid, caption) if grid else _only_csv(caption, "#", notes))
    label = f"tab:{item.paper}-{item.item}"
    write_text(job.outputs["latex"], tables.latex(grid, caption, label) if grid else _only_csv(caption, "%", notes))
    job.note(rows=len(results.rows), substitutes=list(results.substitutes()))


def _only_csv(caption: str, mark: str, notes: list[str]) -> str:
    """Return the text for an item whose numbers are drawn, not tabulated: its title and what is missing."""
    return "".join(
        f"{line}\n" for line in (f"{mark} {caption}", *(f"{'%' if mark == '%' else '-'} {n}" for n in notes))
    )


if __name__ == "__main__":
    main("make_table", run)
