"""Say of every attacker's row of a scale's result tables what its attack has to know; no run is read."""

from collections import Counter

from leaklab.items.items import load_item
from leaklab.planning.missing import without_missing
from leaklab.report.site.threats import lines_of, write_lines
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write ``threat_models`` for the ``tables`` of items that run at the scale, from their ``item_files``."""
    scale = job.spec["scale"]
    found = {item.key: item for item in map(load_item, job.inputs["item_files"])}
    items = without_missing(found, {scale: job.spec.get("missing", {})})
    tables = {f"{path.parent.name}/{path.stem}": path for path in job.inputs.get("tables", [])}
    lines = [line for key, path in tables.items() for line in lines_of(items[key], scale, path)]
    write_lines(job.outputs["threat_models"], lines)
    job.note(rows=len(lines), letters=dict(sorted(Counter(line["letter"] for line in lines).items())))


if __name__ == "__main__":
    main("publish_threat_models", run)
