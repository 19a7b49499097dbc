"""What has to be fetched before jobs run where there is no network: data sets and published weights."""

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ValidationError

from leaklab.data.download import why_unavailable
from leaklab.data.fetch import answering
from leaklab.guests.places import plain
from leaklab.items.items import Item
from leaklab.planning.missing import why_missing
from leaklab.planning.plan import PREPARED, Job, result_files
from leaklab.records import plugins
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, sha256
from leaklab.specs.capture import CaptureSpec, ImageChoice
from leaklab.specs.generator import GENERATORS
from leaklab.specs.stages import folders_of
from leaklab.specs.text import TEXT_FOLDER

PUBLISHED = ("metrics", GENERATORS)
"""Rooms whose plug-ins may have published weights."""


@dataclass(frozen=True)
class Needed:
    """What some jobs read from outside.

    Attributes:
        datasets: of ``config/datasets.yaml``, and below ``text/`` of ``config/texts.yaml``.
        weights: of ``config/weights.yaml``.
    """

    datasets: tuple[str, ...]
    weights: tuple[str, ...]


def needed_by(jobs: Iterable[Job]) -> Needed:
    """Return what jobs read from outside, each once; imports the metrics and generators that they name."""
    every = list(jobs)
    datasets = {job.dataset for job in every if job.dataset}
    weights = {name for job in every for name in job.spec.own_weights}
    named = (one for job in every for one in job.spec.plugins() if one[0] in PUBLISHED)
    for room, name, settings in {(room, name): (room, name, settings) for room, name, settings in named}.values():
        weights.add(str(getattr(plugins.load(room, name, settings), "weights", "")))
    return Needed(tuple(sorted(datasets)), tuple(sorted(filter(None, weights))))


def files_to_make(needed: Needed, answer: Callable[..., set[str]] = answering) -> tuple[list[Path], Mapping[str, str]]:
    """Return the prepared files that are not here yet and can be made, and why each other data set cannot be had.

    Raises:
        UserError: ``LEAKLAB_MIRROR`` names no folder, or a catalog is wrong.
    """
    gone = why_missing(needed.datasets, answer)
    files = {name: PREPARED / f"{name}.{'json' if name.startswith(TEXT_FOLDER) else 'safetensors'}"
             for name in needed.datasets if name not in gone}  # fmt: skip
    return [file for file in files.values() if not file.is_file()], gone


def weights_not_to_be_had(needed: Needed) -> dict[str, str]:
    """Fetch the weights that are not here; return why others cannot be had.

    Raises:
        UserError: a file is damaged.
    """
    reasons = {name: why_unavailable(name) for name in needed.weights}
    return {name: reason for name, reason in reasons.items() if reason is not None}


# What prepared data sets hold.


class Kind(BaseModel):
    """Files of one kind: how many, and the name of one."""

    count: int
    example: str


class Card(BaseModel):
    """What is told of the card of a prepared data set of images; see ``data/prepare.py::prepare``."""

    shape: tuple[int, int, int]
    mean: list[float]
    train_size: int
    test_size: int
    num_classes: int
    left_out: dict[str, Kind] = {}
    noticed: dict[str, Kind] = {}

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Return that of a data set; None if it is not here, or holds sentences.

        Raises:
            UserError: it is damaged.
        """
        file = PREPARED / f"{name}.json"
        if name.startswith(TEXT_FOLDER) or not file.is_file():
            return None
        try:
            return cls.model_validate(read_json(file))
        except ValidationError:
            raise UserError(f"{file} is damaged: delete it and run the same command again") from None


def described(name: str) -> str:
    """Return what a data set holds, in one line: how many images of what, and what was left out of its files.

    Raises:
        UserError: its card is damaged.
    """
    card = Card.of(name)
    if card is None:
        return "here"
    many = f"{card.train_size:,} training and {card.test_size:,} test images of {card.num_classes:,} classes"
    means = " ".join(f"{mean:.2f}" for mean in card.mean)
    line = f"{many}, {'x'.join(map(str, card.shape))}, mean {means}"
    for words, kinds in (("left out", card.left_out), ("taken otherwise than stored", card.noticed)):
        if kinds:
            line += f"; {words}: {', '.join(f'{one.count} {kind} ({one.example})' for kind, one in kinds.items())}"
    return line


def refuse_too_few(jobs: Iterable[Job]) -> None:
    """Compare how many images captures ask for with how many a prepared data set has.

    Raises:
        UserError: they ask for more; contrast and labels, which may leave fewer, are for the capture to look at.
    """
    choices = {
        (job.dataset, job.spec.images)
        for job in jobs
        if isinstance(job.spec, CaptureSpec) and isinstance(job.spec.images, ImageChoice)
    }
    cards = {name: Card.of(name) for name in {name for name, _ in choices}}
    for name, choice in choices:
        card = cards[name]
        if card is None or choice.planted:
            continue
        held, last = card.test_size if choice.split == "test" else card.train_size, max(choice.indexes, default=-1)
        if choice.count > held or last >= held:
            asked = f"its positions up to {last}" if last >= held else f"{choice.count} images"
            raise UserError(
                f"an item asks for {asked} of the {choice.split} part of {plain(name)}, which has {held}: ask for "
                "fewer, or give the data set more"
            )


# What of an item's runs colleagues have pushed: brought here by DVC, and nothing else of theirs.

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
        of_remote = any(word in first for word in ("remote", "download", "cloud", "cache"))
        advice = (
            "name the remote with `dvc remote add --default NAME PATH_OR_URL`, or let `make share` of the clone that "
            "made the runs end"
            if of_remote
            else "`dvc pull` says more"
        )
        raise UserError(f"{first.removeprefix('ERROR: ')}; {advice}")


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
