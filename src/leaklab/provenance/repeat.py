"""``leaklab adopt``: repeat a sample of the stale runs with the code here, and record what it stands for."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from leaklab.items.items import load_items
from leaklab.models.lanes.library import COMPILER, FACT, OFF
from leaklab.planning.code_lock import FILE, CodeLock, witnessed
from leaklab.planning.gpus import device_wanted
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.own_items import without_own
from leaklab.planning.plan import PREPARED
from leaklab.planning.run_records import checked_ledger
from leaklab.provenance.sample import READ_RECORDS, Sample, Stale, Survey, choose, seconds_of
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, sha256
from leaklab.records.git import unknown_commit
from leaklab.records.ledger import Ledger
from leaklab.records.recorder import git_state
from leaklab.records.walk import files_below
from leaklab.specs.base import RUNS
from leaklab.specs.stages import folders_of

LAYERS: tuple[tuple[str, ...], ...] = (("fetch_dataset", "fetch_text"), (), ("make_table",), ("make_figure",))
"""Rules whose files are made from those of the layers before them; the empty one is all that is not named here."""
ALONE = ("judge_claims", "publish_threat_models", *READ_RECORDS)
"""Rules that read results of many items."""
SCRATCH, REPEATED = Path(".snakemake/adopt"), Path(".snakemake/adopt-repeated")
LINES_OF_A_FAILURE = 5


def adopted(cores: int, dry_run: bool = False) -> Iterator[str]:
    """Repeat the cheapest stale runs, adopt what they show, and yield what is repeated and found line by line.

    Args:
        cores: how many jobs to repeat side by side.
        dry_run: only say what would be repeated.

    Raises:
        UserError: the code is not committed, or see ``repeat``.
    """
    survey = Survey(known_plan(load_items()), without_own(checked_ledger()), CodeLock.load(), device_wanted())
    git = git_state()
    if not dry_run and (git["dirty"] or not git["commit"]):
        first = unknown_commit() or "commit the code first"
        raise UserError(f"adopt: {first}: evidence names the commit that it speaks for")
    if not survey.stale:
        yield "nothing to adopt: every record is of the code here, or of code that it stands for"
        return
    sample = choose(survey.stale)
    for one in sample.runs:
        yield f"{one.seconds / 60:6.1f} min  {one.made.rule}  {one.entry.path}  ({', '.join(one.parts[1:])})"
    minutes = seconds_of(sample.runs) / 60
    yield f"{len(survey.stale)} stale records; {len(sample.runs)} repeated, {minutes:.1f} core minutes estimated"
    if not dry_run and sample.runs:
        found = repeat(sample, survey, cores)
        found.write()
        yield f"adopted on the evidence of {len(sample.runs)} runs: commit {FILE}"
    for (made, code), why in sample.uncovered.items():
        yield f"stays stale: {made.rule} by code {code}: {why}: make one such run with the older code first"


def repeat(sample: Sample, survey: Survey, cores: int) -> CodeLock:
    """Run the sample in a scratch folder, compare every byte, and return the lock in which the code here is accepted.

    Raises:
        UserError: a job failed, or a file differs; nothing is adopted then.
    """
    _keep(sample.runs)  # of a call that was killed
    for runs in batches(sample.runs):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        _bring_back(runs)
        _furnish(SCRATCH, runs, survey)
        if runs[0].entry.rule in READ_RECORDS:  # what they say of the others is as it was
            accepted(survey, Sample(sample.runs, {})).write(SCRATCH)
        try:
            _run(runs, cores)
        finally:
            _keep(runs)
        found = [*(line for one in runs for line in differences(one)), *_upstream(survey.ledger, runs)]
        if found:
            raise UserError(f"nothing is adopted: {'; '.join(found)} (what the code here makes of it is in {SCRATCH})")
    for folder in (SCRATCH, REPEATED):
        shutil.rmtree(folder, ignore_errors=True)
    return accepted(survey, sample)


def _keep(runs: Iterable[Stale]) -> None:
    """Put aside what was repeated: a call that is stopped or refused has not computed it for nothing."""
    for one in runs:
        if _repeated(one, SCRATCH) and all((SCRATCH / path).is_file() for path in one.entry.outputs):
            _copy(one, SCRATCH, REPEATED)


def _bring_back(runs: Iterable[Stale]) -> None:
    for one in runs:
        if _repeated(one, REPEATED):
            _copy(one, REPEATED, SCRATCH)


def _repeated(run: Stale, folder: Path) -> bool:
    """Whether the code here made it there, from the same inputs."""
    record = folder / run.entry.path
    made = read_json(record) if record.is_file() else {}
    return bool(made.get("code") == run.made.code and made.get("inputs") == run.entry.inputs)


def _copy(run: Stale, source: Path, target: Path) -> None:
    for path in (*run.entry.outputs, str(run.entry.path)):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, target / path)


def accepted(survey: Survey, sample: Sample) -> CodeLock:
    """Return the lock in which the code here stands for that of all stale records that the sample covers."""
    older: dict[str, list[Stale]] = {}
    for one in survey.stale:
        if one.group not in sample.uncovered:
            older.setdefault(one.made.key, []).append(one)
    lock = survey.lock
    for key, members in older.items():
        parts = {part for one in members for part in one.parts}
        evidence = {
            run.entry.path.as_posix(): witnessed(run.entry)
            for run in sample.runs
            if run.made.rule == members[0].made.rule and parts & set(run.parts)
        }
        digests = tuple(dict.fromkeys(one.code for one in members))
        lock = lock.with_adopted(key, digests, members[0].made.code, evidence)
    return lock


def batches(runs: Iterable[Stale]) -> list[list[Stale]]:
    """Return what may run side by side: the steps of each layer, and each of those that read results or records alone.

    What is repeated is newer than all that was made from it: in one folder, its whole chain would be made anew.
    """
    found = list(runs)
    named = {rule for rules in (*LAYERS, ALONE) for rule in rules}
    of_layers = (
        [one for one in found if (one.entry.rule in rules if rules else one.entry.rule not in named)]
        for rules in LAYERS
    )
    return [*(batch for batch in of_layers if batch), *([one] for one in found if one.entry.rule in ALONE)]


def differences(run: Stale, scratch: Path = SCRATCH) -> Iterator[str]:
    """Yield what a repeated run made differently."""
    for path, value in run.entry.outputs.items():
        file = scratch / path
        if not file.is_file():
            yield f"{path} of {run.entry.path} was not made"
        elif sha256(file) != value and not (
            _same_but_times(Path(path), file, run.timed) or _same_arrays(Path(path), file, value)
        ):
            yield f"{path} of {run.entry.path} is not the same any more"
    record = scratch / run.entry.path
    for path in read_json(record)["outputs"] if record.is_file() else ():
        if path not in run.entry.outputs:
            yield f"{path} of {run.entry.path} was not made before"


def _same_but_times(old: Path, new: Path, timed: tuple[str, ...]) -> bool:
    """Compare two long tables without the rows of the metrics that are wall times."""
    if not timed or old.suffix != ".csv" or not old.is_file():
        return False
    from leaklab.records.files import read_table

    tables = [read_table(path) for path in (old, new)]
    times = [table["metric"].isin(timed) for table in tables]
    untimed = [table[~rows].reset_index(drop=True) for table, rows in zip(tables, times, strict=True)]
    return bool(untimed[0].equals(untimed[1]) and times[0].equals(times[1]))


def _same_arrays(old: Path, new: Path, recorded: str) -> bool:
    """Compare two npz files by their arrays, to the bit: headers of the archive depend on Python's patch version."""
    if new.suffix != ".npz" or not old.is_file() or sha256(old) != recorded:
        return False
    import numpy as np

    with np.load(old, allow_pickle=False) as one, np.load(new, allow_pickle=False) as other:
        return one.files == other.files and all(
            (one[name].dtype, one[name].shape, one[name].tobytes())
            == (other[name].dtype, other[name].shape, other[name].tobytes())
            for name in one.files
        )


def _upstream(ledger: Ledger, runs: Iterable[Stale]) -> Iterator[str]:
    """Yield the files that had to be made for the sample and are not what a published record was made from."""
    own = {path for one in runs for path in one.entry.outputs}
    for entry in ledger.entries:
        for path, value in entry.inputs.items():
            file = SCRATCH / path
            made = path not in own and Path(path).is_relative_to(RUNS) and not (ledger.root / path).is_file()
            if made and file.is_file() and sha256(file) != value:
                yield f"{path}, made again, is not the file that {entry.path} was made from"


def _run(runs: Iterable[Stale], cores: int) -> None:
    compiled = [bool(one.entry.content["facts"].get(FACT)) for one in runs]
    for road in (False, True):
        # by its record, which every rule names: some write more files than their rule does
        own = [one.entry.path.as_posix() for one, there in zip(runs, compiled, strict=True) if there is road]
        if own:
            # on the road that the record names: another one rounds otherwise
            _call(own, cores, {} if road else {COMPILER: OFF})


def _call(targets: Sequence[str], cores: int, told: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", "Snakefile", "--directory", str(SCRATCH)]
    command += ["--cores", str(cores), "--quiet", "rules", "progress", "--", *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**told, **os.environ})
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()][-LINES_OF_A_FAILURE:]
        raise UserError(f"nothing is adopted: the sample does not run with the code here: {' '.join(said)}")


def _furnish(scratch: Path, runs: Iterable[Stale], survey: Survey) -> None:
    """Put all that the runs read into the scratch folder, and nothing that they make.

    Copies get one time, so that nothing in it looks newer than what was made from it.
    """
    made = {path for one in runs for path in (*one.entry.outputs, one.entry.path.as_posix())}
    wanted: set[Path] = set()
    for one in runs:
        wanted.update(Path(path) for path in one.entry.inputs)
        folders = [Path(path).parent for path in one.entry.inputs if Path(path).is_relative_to(RUNS)]
        folders += [folder for job in one.upstream for needed in job.needs for folder in folders_of(needed)]
        wanted.update(file for folder in folders for file in folder.glob("*"))
        wanted.update(files_below(PREPARED) if one.upstream else ())
        if one.entry.rule in READ_RECORDS:
            wanted.update(file for place in ("results", "figures", PREPARED) for file in files_below(Path(place)))
    wanted.update(files_below(Path("config")))
    for file in sorted(wanted):
        if file.is_file() and file.as_posix() not in made and not (scratch / file).exists():
            (scratch / file).parent.mkdir(parents=True, exist_ok=True)
            _bring(file, scratch / file)
    (scratch / "src").symlink_to(Path("src").resolve())
    now = datetime.now(UTC).timestamp()
    for file in scratch.rglob("*"):
        if not file.is_symlink() and file.is_file() and PREPARED.as_posix() not in file.as_posix():
            os.utime(file, (now, now))


def _bring(file: Path, place: Path) -> None:
    """Link a prepared data set, which may be large; copy everything else."""
    if file.is_relative_to(PREPARED):
        try:
            place.hardlink_to(file)
        except OSError:
            pass  # another file system
        else:
            return
    shutil.copy2(file, place)
