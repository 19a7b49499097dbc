"""Kinds of work: jobs whose unit (a client step, an evaluation) is the same, and how many units each job has."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from leaklab.planning.pieces import shorter_trainings
from leaklab.planning.plan import Job, Plan
from leaklab.planning.resources import cost
from leaklab.records.files import write_table
from leaklab.records.record import canonical_json
from leaklab.records.traits import chosen
from leaklab.specs.attack import ATTACKS, AttackSpec, LandscapeSpec, ProjectionSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.text import TextAttackSpec
from leaklab.specs.training import TrainSpec
from paper_hours.attacks import PRINTED, evaluation_of, searches_by_lbfgs, trials_together
from paper_hours.counting import Count
from paper_hours.other_work import (
    generator_step,
    landscape_point,
    law_trial,
    precision_of,
    projection_step,
    text_evaluation,
)  # fmt: skip
from paper_hours.training import step_of, together

UNITS = {"train": "client steps", "generator": "steps", "projection": "image steps", "landscape": "points"}
EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class Kind:
    """What one unit asks for.

    Attributes:
        kind: in words, which are the key.
        stage: of the jobs.
        unit: what is counted.
        precision: of the numbers.
        together: units that share a launch.
        flop: of one unit, as the next two.
        bytes: see ``Count``.
        kernels: likewise, its share of launches that several units have in common.
        product_bytes: likewise.
    """

    kind: str
    stage: str
    unit: str
    precision: str
    together: int
    flop: float
    bytes: float
    kernels: float
    product_bytes: float

    @property
    def count(self) -> Count:
        """What one unit asks for."""
        return Count(self.flop, self.bytes, self.kernels, self.product_bytes)


def words_of(spec: Any) -> str:
    """Return what makes a job's unit what it is; empty for a job that has none on a GPU."""
    match spec:
        case TrainSpec():
            return _words(
                "train", spec.dataset, _named(spec.model), _named(spec.algorithm_plugin), spec.defense.name,
                f"batch {spec.batch_size}", f"{spec.local_steps} local steps", f"{together(spec, False)} models",
                spec.optimizer.name, spec.dtype,
            )  # fmt: skip
        case AttackSpec() if cost(spec).evaluations:
            return _of_attack(spec)
        case LandscapeSpec():
            return "landscape of " + _of_attack(spec.attack)
        case LawSpec() if cost(spec).evaluations:
            return _words("law", *_captured(spec.capture))
        case ProjectionSpec() if cost(spec).evaluations:
            return _words("projection", spec.dataset, _named(spec.generator.model), spec.perceptual or "pixels")
        case GeneratorSpec() if spec.model.name == "conditional-gan" and spec.steps:
            return _words("generator", spec.dataset, _named(spec.model), f"batch {spec.batch_size}")
        case TextAttackSpec() if cost(spec).evaluations:
            return _words("text", spec.attack.name, _named(spec.capture.model))
    return ""


def units_of(job: Job, plan: Plan) -> int:
    """Return how many units a job has, at most; a training that goes on from a shorter one has the rest."""
    own = cost(job.spec)
    if not isinstance(job.spec, TrainSpec):
        return own.evaluations or own.steps
    before = _shorter(plan).get(job.name)
    return own.steps - (cost(before).steps if before is not None else 0)


_KNOWN: list[tuple[Plan, dict[str, TrainSpec]]] = []


def _shorter(plan: Plan) -> dict[str, TrainSpec]:
    """Return ``shorter_trainings`` of the plan, found once for the last one that was asked for."""
    if not _KNOWN or _KNOWN[0][0] is not plan:
        _KNOWN[:] = [(plan, shorter_trainings(plan))]
    return _KNOWN[0][1]


def kept_kinds(jobs: Iterable[Job], file: Path) -> dict[str, Kind]:
    """Return every kind of some jobs, those of the file uncounted; each new one is kept at once."""
    known = read_kinds(file)
    for job in jobs:
        words = words_of(job.spec)
        if words and words not in known:
            known[words] = kind_of(job.spec)
            write_table(file, pd.DataFrame([asdict(one) for one in known.values()]).sort_values("kind"))
    return known


def read_kinds(file: Path) -> dict[str, Kind]:
    """Return the kinds of a file by their words; none where there is no file."""
    if not file.is_file():
        return {}
    rows = pd.read_csv(file).to_dict("records")
    names = [each.name for each in fields(Kind)]
    return {str(row["kind"]): Kind(**{name: row[name] for name in names}) for row in rows}


def kind_of(spec: Any) -> Kind:
    """Count one unit of a job."""
    count, side_by_side = _counted(spec)
    unit = UNITS.get(spec.stage, EVALUATIONS)
    return Kind(words_of(spec), spec.stage, unit, precision_of(spec), side_by_side, *vars(count).values())


def _counted(spec: Any) -> tuple[Count, int]:
    match spec:
        case TrainSpec():
            return step_of(spec)
        case AttackSpec():
            return evaluation_of(spec)
        case LandscapeSpec():
            return landscape_point(spec)
        case LawSpec():
            return law_trial(spec)
        case ProjectionSpec():
            return projection_step(spec)
        case GeneratorSpec():
            return generator_step(spec)
    return text_evaluation(spec)


def _of_attack(spec: AttackSpec) -> str:
    name, transform = spec.attack.name, spec.transform.name
    matching = chosen(ATTACKS, name, spec.attack.settings, "matching") if name == "delta-ig" else ""
    search = "" if name == "ggl" else "l-bfgs" if searches_by_lbfgs(spec) else "adam"
    own = f"{name} {matching}".strip() if name in PRINTED else "posterior search"
    prior = f"population {chosen(ATTACKS, name, spec.attack.settings, 'population')}" if name == "ggl" else search
    distance = "" if name == "ggl" or name not in PRINTED or transform == "none" else transform
    generator = _named(spec.generator.model) if spec.generator and name == "ggl" else ""
    samples = f"{spec.attack.settings['samples']} samples" if spec.attack.settings.get("samples") else ""
    return _words(
        "attack", own, prior, distance, generator, samples, *_captured(spec.capture), precision_of(spec),
        f"{trials_together(spec)} updates together",
    )  # fmt: skip


def _captured(capture: Any) -> tuple[str, ...]:
    server = "seen alone" if capture.server is not None else ""
    steps = f"{capture.local_steps} local steps"
    return capture.dataset, _named(capture.model), f"batch {capture.batch_size}", steps, server


def _named(part: Any) -> str:
    settings = {name: value for name, value in part.settings.items() if name not in ("initialisation", "dropout")}
    return f"{part.name} {canonical_json(settings)}" if settings else str(part.name)


def _words(*parts: str) -> str:
    return ", ".join(part for part in parts if part).replace('"', "")
