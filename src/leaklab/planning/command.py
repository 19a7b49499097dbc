"""The command of a rule's step: it passes on what the rule declares, by the names that the rule declares it under."""

import json
from typing import Any

from leaklab.planning.lookups import signed

AHEAD = ("before", "checkpoint")
"""Inputs that only have to be there first: a checkpoint is found beside the outputs."""
BESIDE = ("pages",)
"""Outputs that are built into the folder of another one."""
FILES = "{params.files} 2> {log}"
OPTIONS = {"device": "--device {params.device}", "threads": "--threads {threads}"}


def step(name: str, *options: str) -> str:
    """Return the ``shell`` of a rule whose parameters are ``spec``, ``code`` and ``files``.

    Args:
        name: of the step.
        options: what else it is told: ``device`` (another parameter of the rule), ``threads``.
    """
    command = f"python -m leaklab.steps.{name} --spec {{params.spec:q}} --code {{params.code}}"
    return " ".join([command, *(OPTIONS[option] for option in options), FILES])


@signed
def files(wildcards: Any, input: Any, output: Any) -> str:
    """Return how the step is told its files; as it asks for them, Snakemake does not compare it.

    A name of several files, or none, is written as what the shell makes one word for each of.
    """
    read, written = _named(input, AHEAD), _named(output, BESIDE)
    return " ".join([*(["--input", *read] if read else []), "--output", *written])


def _named(paths: Any, left_out: tuple[str, ...]) -> list[str]:
    return [_words(name, value) for name, value in paths.items() if name not in left_out]


def _words(name: str, value: Any) -> str:
    return f"{name}={value}" if isinstance(value, str) else f"$(printf ' {name}=%s' {' '.join(value)})"


@signed
def dataset_spec(wildcards: Any, output: Any) -> str:
    """Return what a step is told that makes a data set; Snakemake compares the catalog's entry instead."""
    return json.dumps({"dataset": wildcards.dataset})
