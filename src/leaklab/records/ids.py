"""Run ids: a readable slug and a hash of the spec's canonical JSON.

Two items that ask for the same run share it; a changed number is a new run and never overwrites the old one.
"""

import hashlib
from pathlib import Path

from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.canonical import canonical_json
from leaklab.records.capture_spec import CapturedRound, CaptureSpec, TextCaptureSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.partition_spec import PartitionSpec
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TextAttackSpec, TextScoreSpec
from leaklab.records.train_spec import TrainSpec

RUNS = Path("results/runs")
HASH_LENGTH = 8
STAGES = {
    "partition": PartitionSpec,
    "train": TrainSpec,
    "generator": GeneratorSpec,
    "capture": CaptureSpec,
    "attack": AttackSpec,
    "score": ScoreSpec,
    "projection": ProjectionSpec,
    "landscape": LandscapeSpec,
    "check": CheckSpec,
    "capture-text": TextCaptureSpec,
    "attack-text": TextAttackSpec,
    "score-text": TextScoreSpec,
}


def stage_of(spec: Spec) -> str:
    """Return the stage (folder below ``results/runs``) of a spec."""
    return next(stage for stage, kind in STAGES.items() if isinstance(spec, kind))


def run_id(spec: Spec) -> str:
    """Return ``<slug>-<hash8>``."""
    digest = hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:HASH_LENGTH]
    return f"{'-'.join(_slug(spec))}-{digest}"


def run_folder(spec: Spec) -> Path:
    """Return the run's folder, relative to the project root."""
    return RUNS / stage_of(spec) / run_id(spec)


def _slug(spec: Spec) -> list[str]:
    if isinstance(spec, CheckSpec):
        return [spec.check.name]
    if isinstance(spec, PartitionSpec):
        return [spec.dataset, spec.partition.name]
    if isinstance(spec, TrainSpec):
        return [spec.dataset, spec.model.name, spec.defense.name]
    if isinstance(spec, GeneratorSpec):
        return [spec.dataset, spec.model.name]
    if isinstance(spec, ProjectionSpec):
        return [spec.dataset, spec.generator.model.name]
    if isinstance(spec, CapturedRound):
        return [spec.dataset, spec.model.name, spec.defense.name]
    if isinstance(spec, AttackSpec):
        return [spec.capture.dataset, spec.attack.name, spec.transform.name, "on", spec.capture.defense.name]
    if isinstance(spec, TextAttackSpec):
        return [spec.capture.dataset, spec.attack.name, "on", spec.capture.defense.name]
    return _slug(spec.attack)
