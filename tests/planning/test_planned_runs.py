"""The runs of all items are those that they were: a line for each item and scale says what its jobs are and are told.

A line of ``planned_runs.txt`` has the number of jobs behind the item and a digest of each of:

* ``runs``: the item's own runs: block, variant, attacker, choice of every run;
* ``ids``: stage, folder and canonical JSON of every job;
* ``told``: what its step is told;
* ``reads``: the runs and the data set that it reads;
* ``code``: its rule with the plug-ins that it executes.

Who changes the runs of an item on purpose (its YAML, a default, a plug-in of theirs) writes the list anew, and commits
it: ``python tests/planning/test_planned_runs.py``. A line that changes otherwise is a run that gets lost.
"""

import hashlib
from pathlib import Path

from leaklab.items.items import load_items
from leaklab.planning.code import code_of
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.plan import Job, Plan, build_plan
from leaklab.records.record import canonical_json

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("planned_runs.txt")
COLUMNS = ("jobs", "runs", "ids", "told", "reads", "code")


def digest(parts):
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:8]


def asked(run):
    """Return what an item says of a run of its own."""
    spec = "" if run.spec is None else canonical_json(run.spec)
    return canonical_json([run.block, run.variant, run.attacker, dict(run.choice), spec])


def facts_of(job):
    """Return what is known of a job, by the columns that speak of jobs."""
    return {
        "ids": f"{job.folder} {job.text}",
        "told": job.told,
        "reads": canonical_json([*job.read_runs, job.dataset]),
        "code": code_of(job.spec).key,
    }


def lines(whole):
    """Return item and scale -> the columns."""
    # jobs of its own, as those of a known plan are told their names, and other tests ask the whole one for them
    jobs = {stage: {name: Job(job.spec) for name, job in own.items()} for stage, own in whole.jobs.items()}
    plan = KnownPlan.of(Plan(whole.items, jobs, whole.datasets, whole.runs))
    known, found = {}, {}
    for (scale, key), runs in sorted(plan.runs.items()):
        jobs = plan.jobs_of(scale, plan.items[key])
        known |= {job.folder: facts_of(job) for job in jobs if job.folder not in known}
        of_jobs = [digest(f"{job.folder} {known[job.folder][name]}" for job in jobs) for name in COLUMNS[2:]]
        found[f"{key} {scale}"] = (str(len(jobs)), digest(map(asked, runs)), *of_jobs)
    return found


def test_the_planned_runs_are_those_of_the_list(whole_plan):
    kept = {" ".join(words[:2]): tuple(words[2:]) for words in map(str.split, FILE.read_text().splitlines())}
    found = lines(whole_plan)
    assert len(found) > 100
    changed = {
        place: [name for name, was, now in zip(COLUMNS, kept[place], columns, strict=True) if was != now]
        for place, columns in found.items()
        if place in kept and kept[place] != columns
    }
    assert not changed
    assert list(found) == list(kept)


if __name__ == "__main__":
    every = lines(build_plan(load_items(ROOT / "config/items")))
    FILE.write_text("".join(f"{place} {' '.join(columns)}\n" for place, columns in every.items()))
