"""Files that are damaged after they were made: cut off, one bit flipped, or with a time of another year."""

import base64
import os
import random
from collections.abc import Sequence
from pathlib import Path

from chaos.bench import Bench, Fault, Harm, made_again, verdicts
from chaos.jobs import Job

CUTS = {"cut to nothing": 0.0, "cut to a half": 0.5, "the last bytes gone": 0.98}
FLIP = "one bit flipped"
YEARS = {"1980": 315532800, "2099": 4070908800}
DAMAGES = (*CUTS, FLIP)


def harm_file(path: Path, how: str, chance: random.Random) -> None:
    """Damage a file and keep its time."""
    status, content = path.stat(), bytearray(path.read_bytes())
    if how == FLIP:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    else:
        content = content[: int(CUTS[how] * len(content))]
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def damage_outputs(bench: Bench, jobs: Sequence[Job], how: Sequence[str], chance: random.Random) -> list[Fault]:
    """Damage one output of each job under its old time: ``leaklab audit`` has to name it; deleted, it is made anew.

    Snakemake looks at what is in a file only where its time is new (docs/provenance.md, Limits).
    """
    chosen = {job: chance.choice(job.outputs) for job in jobs}
    for (_, name), one in zip(chosen.items(), how, strict=True):
        harm_file(bench.folder / name, one, chance)
    others = [job for job in bench.jobs if job not in jobs]
    before = bench.state(others)
    audit = bench.calls.run("leaklab", "audit")
    silent = [name for name in chosen.values() if f"{name}: changed" not in audit.text]
    for name in chosen.values():
        (bench.folder / name).unlink()
    plain = bench.calls.plain(list(chosen.values()))
    after = bench.state(others)
    hits = {job: f"{one}, the old time kept" for (job, _), one in zip(chosen.items(), how, strict=True)}
    found = verdicts(bench, "damaged output", Harm(hits, [audit]), plain, made_again(before, after))
    return [_unnamed(fault, job, chosen[job] in silent) for fault, job in zip(found, hits, strict=True)]


def _unnamed(fault: Fault, job: Job, silent: bool) -> Fault:
    if not silent:
        return fault
    reason = "; ".join(filter(None, [fault.reason, f"the audit does not name an output of {job.record}"]))
    return Fault(**{**vars(fault), "survived": False, "reason": reason})


def damage_metadata(bench: Bench, jobs: Sequence[Job], how: Sequence[str], chance: random.Random) -> list[Fault]:
    """Damage what Snakemake noted of one output of each job; the job may be made again, with the same bytes.

    Snakemake goes on without a note that it cannot read, so the whole one is put back: else each later fault would be
    two at once.
    """
    hits, whole, damaged = {}, {}, {}
    for job, one in zip(jobs, how, strict=True):
        path = _metadata(bench.folder, job.target)
        if path.is_file() and path.stat().st_size:
            whole[path] = path.read_bytes()
            harm_file(path, one, chance)
            damaged[path] = path.read_bytes()
            hits[job] = f"Snakemake's note of an output: {one}"
    if not hits:
        return []
    others = [job for job in bench.jobs if job not in jobs]
    before = bench.state(others)
    plain = bench.calls.plain([job.target for job in hits])
    after = bench.state(others)
    for path in (path for path in whole if path.is_file() and path.read_bytes() == damaged[path]):
        path.write_bytes(whole[path])
    return verdicts(bench, "damaged note", Harm(hits), plain, made_again(before, after))


def _metadata(folder: Path, name: str) -> Path:
    return folder / ".snakemake/metadata" / base64.urlsafe_b64encode(name.encode()).decode()


def touch_files(bench: Bench, jobs: Sequence[Job], years: Sequence[str]) -> list[Fault]:
    """Set all files of each job to a time of another year: nothing may be made again, as their bytes are the same."""
    hits = {}
    for job, year in zip(jobs, years, strict=True):
        for name in job.files:
            os.utime(bench.folder / name, (YEARS[year], YEARS[year]))
        hits[job] = f"all its files touched to {year}"
    before = bench.state(bench.jobs)
    plain = bench.calls.plain([job.target for job in bench.jobs])
    after = bench.state(bench.jobs)
    return verdicts(bench, "clock", Harm(hits), plain, made_again(before, after))
