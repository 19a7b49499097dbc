"""What has to be fetched before jobs run where there is no network: data sets and published weights."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leaklab.data.network import answering
from leaklab.data.weights import why_unavailable
from leaklab.planning.missing import why_missing
from leaklab.planning.plan import PREPARED, Job
from leaklab.records import plugins
from leaklab.records.generator_spec import GENERATORS
from leaklab.records.text_specs import TEXT_FOLDER

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
