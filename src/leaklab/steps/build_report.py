"""Build the static site of a scale."""

from pathlib import Path

from leaklab.items.items import load_items, load_papers
from leaklab.planning.missing import without_missing
from leaklab.records.files import write_text
from leaklab.report.site import site
from leaklab.report.site.checkout import scale_readme
from leaklab.report.site.site_data import Sources, gather
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write ``index.html``, a page per item, copies of all figures, and ``README.md`` for a forge, each recorded."""
    folder = job.outputs["index"].parent
    sources = Sources(job.input("comparison"), job.input("verdicts"), job.input("judged"), load_papers())
    scale = job.spec["scale"]
    items = without_missing(load_items(), {scale: job.spec.get("missing", {})})
    data = gather(scale, items, sources, folder / "drawings")
    written = site.build(data, folder)
    write_text(job.outputs["readme"], scale_readme(data))
    job.outputs.update({str(path): Path(path) for path in written[1:]})
    job.note(pages=len(written))


if __name__ == "__main__":
    main("build_report", run)
