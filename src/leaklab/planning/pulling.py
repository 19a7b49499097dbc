"""What of an item's runs colleagues have pushed: brought here by DVC, and nothing else of theirs."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from leaklab.planning.plan import PREPARED, Job, result_files
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, sha256
from leaklab.records.items import Item
from leaklab.records.observed import folders_of

# Snakemake's records: without them a file that was brought here counts as made by nobody knows what
RECORDS = Path(".snakemake/metadata")
LOCK = Path("dvc.lock")


def pulled(jobs: Sequence[Job], items: Iterable[Item], scale: Scale) -> str:
    """Bring what was shared of some items, and return in words how much of it is here.

    Raises:
        UserError: see ``pull`` and ``refuse_damaged``.
    """
    pull(paths_of(jobs, items, scale))
    refuse_damaged(jobs)
    return words(jobs)


def paths_of(jobs: Iterable[Job], items: Iterable[Item], scale: Scale) -> list[Path]:
    """Return what DVC may hold of some items: their runs, prepared data, results, and Snakemake's records."""
    every = list(jobs)
    datasets = sorted({job.dataset for job in every if job.dataset})
    prepared = [PREPARED / f"{name}.{kind}" for name in datasets for kind in ("safetensors", "json", "run.json")]
    shown = [path for item in items for path in result_files(item, scale).values()] if scale != "small" else []
    return [RECORDS, *prepared, *(folder for job in every for folder in folders_of(job.spec)), *shown]


def pull(paths: Sequence[Path]) -> None:
    """Let DVC bring those of the paths that a remote has; what it does not know is left out without a word.

    Raises:
        UserError: nothing was ever shared here, there is no remote, or it does not answer or lacks a file.
    """
    if not LOCK.is_file():
        raise UserError(f"{LOCK} is missing: it says what was shared, so pull works in a clone of a shared project")
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "pull", "--quiet", *map(str, paths)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        first = next((line for line in said if line.startswith("ERROR")), said[0] if said else "dvc pull failed")
        raise UserError(
            f"{first.removeprefix('ERROR: ')}; name the remote with `dvc remote add --default NAME PATH_OR_URL`, "
            "or let `make share` of the clone that made the runs end"
        )


def refuse_damaged(jobs: Iterable[Job]) -> None:
    """Compare what was brought here with the records beside it, before any job reads it.

    Raises:
        UserError: names the files that were changed or cut short on their way; nothing is deleted.
    """
    bad = [path for job in jobs for path in _differing(job.folder / "run.json")]
    if bad:
        raise UserError(
            f"{', '.join(bad)}: not what the record beside it says: changed or cut short on the remote; delete it, and "
            "snakemake makes it again"
        )


def _differing(record: Path) -> list[str]:
    if not record.is_file():
        return []
    content = read_json(record)
    outputs = content.get("outputs") if isinstance(content, dict) else None
    if not isinstance(outputs, dict):
        return [str(record)]
    return [path for path, value in outputs.items() if not _is(Path(path), value)]


def _is(path: Path, value: str) -> bool:
    """Tell whether a file of this project has a checksum."""
    if path.is_absolute() or ".." in path.parts:
        return False
    try:
        return path.is_file() and sha256(path) == value
    except OSError:  # no file has so long a name, or it may not be read
        return False


def words(jobs: Sequence[Job]) -> str:
    """Return how many of the runs are here now."""
    lacking = sum(not (job.folder / "run.json").is_file() for job in jobs)
    rest = f"; {lacking} were not shared: snakemake makes them" if lacking else ""
    return f"{len(jobs) - lacking} of {len(jobs)} runs are here{rest}"
