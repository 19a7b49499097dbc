"""Which modules a job runs: its step and the plug-ins that its spec names."""

from functools import cache

from leaklab.records.code import digest
from leaklab.records.ids import stage_of
from leaklab.records.plugins import module_name
from leaklab.records.spec_plugins import plugins_of
from leaklab.records.specs import Spec

RULE_OF_STAGE = {
    "partition": "partition_data",
    "train": "train_federated",
    "generator": "train_generator",
    "capture": "capture_updates",
    "attack": "run_attack",
    "score": "score_attack",
    "projection": "project_image",
    "landscape": "map_landscape",
    "check": "check_theory",
    "capture-text": "capture_text",
    "attack-text": "attack_text",
    "score-text": "score_text",
}


@cache
def code_of_rule(rule: str) -> str:
    """Return the code digest of a step without plug-ins."""
    return digest([f"leaklab.steps.{rule}"])


@cache
def _digest_of(modules: tuple[str, ...]) -> str:
    return digest(modules)


def code_of(spec: Spec) -> str:
    """Return the code digest of a run: the step's modules and its plug-ins' modules."""
    step = f"leaklab.steps.{RULE_OF_STAGE[stage_of(spec)]}"
    return _digest_of((step, *(module_name(room, name) for room, name, _ in plugins_of(spec))))
