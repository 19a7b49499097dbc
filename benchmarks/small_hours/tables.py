"""The seconds of jobs, summed by what they have in common, and the longest jobs."""

from collections.abc import Callable, Iterable
from typing import Any

from leaklab.specs.attack import AttackSpec, CheckSpec, LandscapeSpec, ScoreSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.text import TextAttackSpec, TextCaptureSpec
from leaklab.specs.training import TrainSpec
from small_hours.recorded import Spent

LONGEST = 60
NONE = "none"


def model_of(spec: Spec) -> str:
    """Return the network that is trained, attacked or fitted; empty where there is none."""
    if isinstance(spec, ScoreSpec | LandscapeSpec):
        return model_of(spec.attack)
    if isinstance(spec, AttackSpec | TextAttackSpec | LawSpec):
        return model_of(spec.capture)
    return spec.model.name if isinstance(spec, TrainSpec | CaptureSpec | TextCaptureSpec | GeneratorSpec) else ""


def method_of(spec: Spec) -> str:
    """Return the algorithm and defense of a training, the attack with its transform, or the check; else nothing."""
    parts: tuple[str, ...] = ()
    if isinstance(spec, TrainSpec):
        parts = spec.algorithm_plugin.name, spec.defense.name
    elif isinstance(spec, AttackSpec):
        parts = spec.attack.name, spec.transform.name
    elif isinstance(spec, TextAttackSpec):
        parts = (spec.attack.name,)
    elif isinstance(spec, CheckSpec):
        parts = (spec.check.name,)
    return ", ".join(part for part in parts if part != NONE)


BY: dict[str, Callable[[Spent], str]] = {
    "rule": lambda one: one.job.spec.rule,
    "rule and model": lambda one: f"{one.job.spec.rule}, {model_of(one.job.spec)}".removesuffix(", "),
    "rule and method": lambda one: f"{one.job.spec.rule}, {method_of(one.job.spec)}".removesuffix(", "),
}
"""What jobs are put together by."""


def groups(spent: Iterable[Spent]) -> list[dict[str, Any]]:
    """Return a line for all jobs, then one for each group, those with most seconds first."""
    spent = list(spent)
    lines = [_line("all", "", spent)]
    for by, name in BY.items():
        own: dict[str, list[Spent]] = {}
        for one in spent:
            own.setdefault(name(one), []).append(one)
        lines += sorted((_line(by, key, some) for key, some in own.items()), key=lambda line: -line["hours"])
    return lines


def heaviest(spent: Iterable[Spent]) -> list[dict[str, Any]]:
    """Return the jobs that took longest."""
    return [
        {
            "job": f"{one.job.spec.stage}/{one.job.name}", "seconds": round(one.seconds, 1),
            "recorded": one.recorded, "evaluations": one.evaluations, "items": " ".join(one.items),
        }
        for one in sorted(spent, key=lambda one: -one.seconds)[:LONGEST]
    ]  # fmt: skip


def _line(by: str, name: str, spent: list[Spent]) -> dict[str, Any]:
    seen = [one for one in spent if one.wall_seconds is not None]
    with_records = sum(one.seconds for one in seen)
    return {
        "by": by, "name": name, "jobs": len(spent), "hours": round(sum(one.seconds for one in spent) / 3600, 4),
        "recorded_hours": round(with_records / 3600, 4),
        "recorded_wall_hours": round(sum(one.wall_seconds or 0.0 for one in seen) / 3600, 4),
        "evaluations": sum(one.evaluations for one in spent),
        "longest_seconds": round(max(one.seconds for one in spent), 1),
    }  # fmt: skip
