"""What the workflow adds to the steps' own work: starting Snakemake and each step, hashing, scheduling."""

import csv
import json
import subprocess
from pathlib import Path

from operations.measures import Figure, timed

TARGETS = ("results/demo/lrp/table5.csv", "results/demo/lrp/smc.csv")
PUBLISHED = Path("results/small/costs.csv")


def overhead(checkout: Path, scratch: Path) -> list[Figure]:
    """Measure a call on one core against the wall seconds that its steps recorded, and carry it over to scale small.

    A step's record counts from the end of its imports, so that these are part of what the workflow adds.
    """
    folder = scratch / "overhead"
    subprocess.run(["git", "clone", "--quiet", str(checkout), str(folder)], check=True, capture_output=True)
    source = {"PYTHONPATH": str(folder / "src")}
    done = timed("snakemake", "--cores", "1", "--quiet", "rules", "--", *TARGETS, folder=folder, **source)
    places = ("data/prepared", "results/runs", "results/demo")
    records = [json.loads(path.read_text("utf-8")) for place in places for path in (folder / place).rglob("*run.json")]
    own = sum(record["wall_seconds"] for record in records)
    each = (done.wall - own) / len(records)
    with (checkout / PUBLISHED).open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    jobs, seconds = (sum(float(line[name]) for line in lines) for name in ("jobs", "wall_seconds"))
    note = f"{len(records)} jobs of scale demo on one core: {done.wall:.0f} s, of which the steps recorded {own:.0f} s"
    at_small = f"that for each of {jobs:.0f} jobs, over the {seconds / 3600:.0f} h that their steps recorded"
    return [
        Figure("overhead", "added for each job", each, "s", note),
        Figure("overhead", "added at scale demo", 100 * (done.wall - own) / own, "%", note),
        Figure("overhead", "added at scale small", 100 * each * jobs / seconds, "%", at_small),
    ]
