"""Recompute every recorded hash behind a report; a changed file stops the workflow and is named."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leaklab.planning.run_records import checked_ledger
from leaklab.provenance.audit import audit
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write what was checked.

    Records of other scales, and those that are made from the report afterwards, are left to ``leaklab audit``: they
    may be older than this run.

    Raises:
        UserError: a file is not what its record says. Records of uncommitted or older code are listed only: whoever
            edits the code must still be able to run it; ``leaklab audit`` fails on them.
    """
    result = audit(checked_ledger().behind(str(job.input("index"))), same=_same)
    # which records were adopted is not written: the file says what was checked, and an adoption must not age it
    kept = {key: value for key, value in asdict(result).items() if key not in ("adopted", "evidence", "reworded")}
    write_json(job.outputs["audit"], {**kept, "absent": sorted(result.absent)})
    if result.breaks:
        raise UserError(f"{result.breaks[0]} ({len(result.breaks)} in all): delete the files and run snakemake again")
    job.note(records=result.records, files=result.files, stale=len(result.stale))


def _same(path: str, recorded: str, record: Mapping[str, Any], root: Path) -> bool:
    from leaklab.report.collect.edited import only_words_changed  # imports pandas, which an audit seldom needs

    return only_words_changed(path, recorded, record, root)


if __name__ == "__main__":
    main("audit_provenance", run)
