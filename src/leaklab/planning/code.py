"""Which code a job runs: its step, the plug-ins that its spec names, and the command line of its rule."""

import ast
import re
from functools import cache
from pathlib import Path

from leaklab.planning.kept_digests import kept_digests
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


RULES = Path(__file__).parents[3] / "workflow/rules"


def code_of_rule(rule: str) -> str:
    """Return the code digest of a step without plug-ins."""
    return _digest_of(rule, modules_of_rule(rule))


def code_of(spec: Spec) -> str:
    """Return the code digest of a run: the step's modules and its plug-ins' modules."""
    return _digest_of(RULE_OF_STAGE[stage_of(spec)], modules_of(spec))


def modules_of_rule(rule: str) -> tuple[str, ...]:
    """Return the modules that a step without plug-ins starts from."""
    return (f"leaklab.steps.{rule}",)


def modules_of(spec: Spec) -> tuple[str, ...]:
    """Return the modules that a run starts from: its step and its plug-ins."""
    step = modules_of_rule(RULE_OF_STAGE[stage_of(spec)])
    return (*step, *(module_name(room, name) for room, name, _ in plugins_of(spec)))


@cache
def command_of(rule: str) -> str:
    """Return the text of a rule's ``shell:``, however it is laid out; empty for a rule without one.

    It counts as code, so that Snakemake need not compare it: an adoption stands for it like for any other change.
    """
    for file in sorted(RULES.glob("*.smk")):
        text = file.read_text(encoding="utf-8")
        found = re.search(rf"^rule {rule}:\n(?:\s+.*\n|\n)*?    shell:\n((?:        .*\n|\n)+)", text, re.MULTILINE)
        if found:
            return str(ast.literal_eval(f"({found.group(1)})"))
    return ""


@cache
def _digest_of(rule: str, modules: tuple[str, ...]) -> str:
    return kept_digests().digest(modules, command_of(rule))
