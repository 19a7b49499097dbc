"""The jobs of a workspace, as the records that they left describe them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leaklab.records.ledger import Entry, Ledger

LAST = ("judge_claims", "publish_runs", "build_report", "audit_provenance", "build_crate")
"""Rules that read all that a scale made, in order: what they write tells times and records of what came before."""


UNNAMED = re.compile(r"/report/(files/|[a-z]+-[a-z0-9-]+\.html$)|^figures/[a-z]+/partition-")


@dataclass(frozen=True)
class Job:
    """One job that ran.

    Attributes:
        stage: its rule; attacks with a generator apart from the others.
        outputs: files that it made, without the record.
        record: its ``run.json``, which holds times and so never has the same bytes.
        rank: 0 where it reads nothing that another job made, else one more than the jobs that it reads from. Jobs of
            one rank do not depend on each other.
    """

    rule: str
    stage: str
    outputs: tuple[str, ...]
    record: str
    rank: int

    @property
    def files(self) -> tuple[str, ...]:
        """All that it wrote."""
        return *self.outputs, self.record

    @property
    def target(self) -> str:
        """What to ask Snakemake for."""
        return self.outputs[0]


def jobs_of(folder: Path) -> list[Job]:
    """Return the jobs of a workspace."""
    ledger = Ledger.scan(folder)
    ranks: dict[Path, int] = {}
    return [
        Job(entry.rule, _stage(entry), _asked_for(entry), str(entry.path), _rank(entry, ledger, ranks))
        for entry in ledger.entries
    ]


def _asked_for(entry: Entry) -> tuple[str, ...]:
    """Return the outputs that Snakemake can be asked for: no rule names pages of single items or drawings of deals."""
    return tuple(name for name in entry.outputs if not UNNAMED.search(name))


def _stage(entry: Entry) -> str:
    return f"{entry.rule} (GGL)" if entry.rule == "run_attack" and "-ggl-" in str(entry.path) else entry.rule


def _rank(entry: Entry, ledger: Ledger, known: dict[Path, int]) -> int:
    if entry.path not in known:
        makers = {ledger.makers[path].path: ledger.makers[path] for path in entry.inputs if path in ledger.makers}
        known[entry.path] = 1 + max((_rank(maker, ledger, known) for maker in makers.values()), default=-1)
    return known[entry.path]


def levels(jobs: Sequence[Job], largest: int) -> list[list[Job]]:
    """Return the jobs in groups of one rank, none with more than ``largest`` jobs."""
    found = []
    for rank in sorted({job.rank for job in jobs}):
        same = [job for job in jobs if job.rank == rank]
        found += [same[first : first + largest] for first in range(0, len(same), largest)]
    return found


def seconds_of(jobs: Sequence[Job], ends: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """Return record -> processor seconds of the job, from what the nursery noted."""
    by_record = {f"run={job.record}": job.record for job in jobs}
    found: dict[str, float] = {}
    for end in ends:
        for word in end["arguments"]:  # type: ignore[attr-defined]
            if word in by_record:
                found[by_record[word]] = float(end["cpu"])  # type: ignore[arg-type]
    return found
