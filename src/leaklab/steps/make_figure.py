"""Draw an item's figure from its result table (and, for figures of attacks, from the reconstructions)."""

from leaklab.items.items import load_item, with_missing
from leaklab.report.figures import style
from leaklab.report.figures.drawings import draw
from leaklab.report.judge.printed import Printed
from leaklab.report.numbers.results import ResultTable
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write png, pdf and the data that the figure shows."""
    printed = Printed.load(job.input("targets"), job.input("tolerances"))
    item = with_missing(load_item(job.input("item")), job.spec["scale"], job.spec.get("missing", {}))
    drawing = draw(item, job.spec["scale"], ResultTable.read(job.input("csv")), printed)
    drawing.write(job.outputs["data"])
    style.save(drawing.figure, job.outputs["png"], job.outputs["pdf"], drawing.foot, drawing.left)
    job.note(**drawing.facts)


if __name__ == "__main__":
    main("make_figure", run)
