"""What has to be fetched before jobs run where there is no network: data sets and published weights."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.data.network import answering
from leaklab.planning.missing import why_missing
from leaklab.planning.plan import PREPARED, Job
from leaklab.records import plugins
from leaklab.records.attack_spec import ScoreSpec
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.specs import Spec
from leaklab.records.state_spec import PublishedState
from leaklab.records.text_specs import TEXT_FOLDER
from leaklab.records.train_spec import TrainSpec
from leaklab.records.weights import why_unavailable


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
    weights = {name for job in every for name in _weights_of(job.spec)}
    return Needed(tuple(sorted(datasets)), tuple(sorted(weights)))


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


def _weights_of(spec: Spec) -> Iterable[str]:
    if isinstance(spec, TrainSpec) and spec.backbone and spec.backbone.weights:
        yield spec.backbone.weights
    if isinstance(spec, CaptureSpec) and isinstance(spec.state, PublishedState):
        yield spec.state.weights
    if isinstance(spec, GeneratorSpec) and not spec.steps:
        yield _named("models/generators", spec.model.name, spec.model.settings)
    metrics = spec.metrics if isinstance(spec, ScoreSpec | LandscapeSpec) else ()
    if isinstance(spec, ProjectionSpec) and spec.perceptual:
        metrics = (spec.perceptual,)
    yield from filter(None, (_named("metrics", name, {}) for name in metrics))


def _named(room: str, name: str, settings: Mapping[str, Any]) -> str:
    """Return the published weights of a plug-in; empty where it has none."""
    return str(getattr(plugins.load(room, name, settings), "weights", ""))
