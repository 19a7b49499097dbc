"""Describe a scale's results as a Workflow Run RO-Crate."""

from leaklab.planning.run_records import checked_ledger
from leaklab.provenance.crate import crate
from leaklab.records.files import write_json
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write ``ro-crate-metadata.json``."""
    document = crate(checked_ledger(), str(job.input("index")))
    write_json(job.outputs["crate"], document)
    job.note(entities=len(document["@graph"]))


if __name__ == "__main__":
    main("build_crate", run)
