"""All kinds of runs. A new stage is one class here, with the step and the rule that it names."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leaklab.records.errors import UserError
from leaklab.specs.attack import AttackSpec, CheckSpec, LandscapeSpec, ProjectionSpec, ScoreSpec
from leaklab.specs.base import RUNS, CapturedRound, Spec, run_folder, run_id
from leaklab.specs.capture import CaptureSpec, ImageChoice
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec, RehearsalSpec
from leaklab.specs.text import TextAttackSpec, TextCaptureSpec, TextScoreSpec
from leaklab.specs.training import PartitionSpec, TrainSpec

SPECS: tuple[type[Spec], ...] = (
    CheckSpec,
    PartitionSpec,
    TrainSpec,
    GeneratorSpec,
    CaptureSpec,
    LawSpec,
    AttackSpec,
    ScoreSpec,
    ProjectionSpec,
    LandscapeSpec,
    TextCaptureSpec,
    TextAttackSpec,
    TextScoreSpec,
)
STAGES = {kind.stage: kind for kind in SPECS}
RULES = {kind.rule: kind for kind in SPECS}
BLOCKS = {kind.block: kind for kind in SPECS if kind.block}
"""By what a block of an item says under ``stage``."""


# Where the server's side of a capture lies: in a folder of its own, with nothing private in it.

OBSERVED = {kind.stage: kind.observed for kind in SPECS if kind.observed}
"""Stage of a capture -> folder below ``results/runs`` of what the server sees of it."""
CAPTURED = {folder: stage for stage, folder in OBSERVED.items()}


def observation_folder(capture: CapturedRound) -> Path:
    """Return the folder of a capture's observation; its name is the capture's run id."""
    return RUNS / capture.observed / run_id(capture)


def folders_of(spec: Spec) -> tuple[Path, ...]:
    """Return the folders in which a run leaves files."""
    return (run_folder(spec), *([RUNS / spec.observed / run_id(spec)] if spec.observed else []))


def stage_of_file(path: Path) -> str:
    """Return the stage of the run that leaves a file below ``results/runs``."""
    folder = path.parent.parent.name
    return CAPTURED.get(folder, folder)


# What a run's record says of its spec is what its job was told; the rest stands in the records of what the job read.

Reads = Iterable[tuple[type[Spec], Mapping[str, Any]]]
"""Kind and spec of each run whose files a job read."""


def recorded(kind: type[Spec], told: Mapping[str, Any], read: Reads) -> dict[str, Any]:
    """Return the fields of the spec of a run, as far as records say them.

    Args:
        kind: of the run.
        told: what its job was told (``Spec.told``), as its record says it.
        read: see ``Reads``.

    Raises:
        UserError: it is none of such a run.
    """
    by_kind = dict(read)
    captured = next((spec for one, spec in by_kind.items() if one.observed), None)
    if kind is LawSpec:
        return _law(told, captured, by_kind.get(GeneratorSpec))
    withheld = {kind.withheld: captured} if kind.withheld and captured else {}
    law = {"law": by_kind[LawSpec]} if LawSpec in by_kind else {}
    return {**withheld, **law, **told}


def _law(told: Mapping[str, Any], captured: Any, generator: Any) -> dict[str, Any]:
    """Return the fields of a law: its job was told of the rehearsal, which ``LawSpec.told`` made of them."""
    try:
        rehearsal = RehearsalSpec.model_validate(dict(told))
        clients, images = rehearsal.capture, ImageChoice.model_validate(rehearsal.capture.images.model_dump())
    except ValueError as error:
        raise UserError(f"no record of a law: {str(error).splitlines()[0]}") from None
    choosing = images.count // clients.batch_size - rehearsal.images - rehearsal.gate
    own = {name: value for name, value in told.items() if name != "taught"}
    own |= {"choosing": choosing} if rehearsal.images else {}
    return {**own, "capture": captured, "generator": generator, "draws": clients.draws}
