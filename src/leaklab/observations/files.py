"""The files of an observation: what the server sees of a capture. The private side is in ``truth.py``."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict
from torch import Tensor

from leaklab.observations.base import Kind, Knowledge, Mode, Observation
from leaklab.observations.threat_models import THREAT_MODELS, Silence, granted
from leaklab.records.bounds import Count, Flag, Natural, Real
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors

# What an observation's ``facts.json`` has to say, wherever it came from.

Labels = list[Natural] | list[list[Natural]]


class _Strict(BaseModel):
    # values of another type are refused, and so are NaN and infinities
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Plugin(_Strict):
    """A plug-in by its name, and its settings."""

    name: str
    settings: dict[str, Any] = {}


class Vocabulary(_Strict):
    """Of a text network: how many tokens there are, and which of them are no words."""

    size: Count
    padding: Natural
    start: Natural
    end: Natural


class Architecture(Plugin):
    """A model; of text with its vocabulary."""

    vocabulary: Vocabulary | None = None


class Normalisation(_Strict):
    """Mean and deviation of each channel."""

    mean: list[Real]
    std: list[Real]


class Facts(_Strict):
    """The facts of ``threat_models.FACTS``; which of them are there is the threat model's to say."""

    architecture: Architecture | None = None
    weights: str | None = None
    nominal_rate: Real | None = None
    local_steps: Count | None = None
    step_factors: list[Real] | None = None
    batch_size: Count | None = None
    num_classes: Count | None = None
    input_shape: list[Count] | None = None
    input_range: list[Real] | None = None
    defense: Plugin | None = None
    normalisation: Normalisation | None = None
    optimizer: Plugin | None = None
    weight_decay: Real | None = None
    algorithm: Plugin | None = None
    round: Natural | None = None
    rounds: Count | None = None
    server: Plugin | None = None
    queries: Count | None = None
    labels: Labels | None = None


def _known(threat_model: str) -> str:
    if threat_model not in THREAT_MODELS:
        raise ValueError(f"is none of {', '.join(THREAT_MODELS)}")
    return threat_model


def _number(trial: str) -> str:
    if not (trial.isascii() and trial.isdecimal() and len(trial) < 10):
        raise ValueError("is no number of a trial")
    return trial


class Description(_Strict):
    """All of ``facts.json``; see ``save_observation``."""

    kind: Kind
    mode: Mode
    model: dict[str, Any]
    parameters: list[str]
    shared: list[str]
    buffers: list[str]
    trials: Natural
    dtype: str
    threat_model: Annotated[str, AfterValidator(_known)]
    facts: Facts
    each_its_own: Flag = False
    silent: dict[Annotated[str, AfterValidator(_number)], Silence] = {}


AGAIN = "delete its folder and run snakemake again"


def save_observation(tensors: Path, facts: Path, observation: Observation, knowledge: Knowledge) -> None:
    """Write ``observation.safetensors`` and ``facts.json``.

    Raises:
        UserError: the knowledge holds a fact that its threat model withholds, or the update is not finite.
    """
    infinite = [name for name, value in observation.update.items() if not value.isfinite().all()]
    if infinite:
        raise UserError(
            f"the update is not finite (parameter {infinite[0]}): no attack can match it; lower the rate, the steps or "
            "the defense's noise in the item's block"
        )
    _refuse_surplus(knowledge.threat_model, knowledge.facts)
    parts = {part: getattr(observation, part) for part in ("weights", "own", "update", "buffers")}
    write_tensors(tensors, {f"{part}/{name}": value for part, named in parts.items() for name, value in named.items()})
    dtype = str(observation.like.dtype).removeprefix("torch.")
    # safetensors keeps no order, and an attack on the last layer has to know which layer is last
    description = {
        "kind": observation.kind,
        "mode": observation.mode,
        "model": dict(observation.model),
        "parameters": list(observation.weights or observation.own),
        "shared": list(observation.update),
        "buffers": list(observation.buffers),
        "trials": len(observation.trials),
        "dtype": dtype,
        "threat_model": knowledge.threat_model,
        "facts": dict(knowledge.facts),
        # left out otherwise, as observations were written before there were others
        **({"each_its_own": True} if observation.own else {}),
        **({"silent": {str(trial): why for trial, why in observation.silent.items()}} if observation.silent else {}),
    }
    write_json(facts, description)


def load_observation(tensors: Path, facts: Path) -> tuple[Observation, Knowledge]:
    """Read what ``save_observation`` wrote.

    Raises:
        UserError: a file is missing or damaged, or says more than its threat model grants.
    """
    named, description = read_tensors(tensors), read_json(facts)
    parse(Description, description, facts)
    _refuse_surplus(description["threat_model"], description["facts"], f"{facts}: ")

    def part(name: str, listed: str) -> dict[str, Tensor]:
        missing = [key for key in description[listed] if f"{name}/{key}" not in named]
        if missing:
            raise UserError(f"{tensors} has no {name}/{missing[0]}, which {facts} names: {AGAIN}")
        return {key: named[f"{name}/{key}"] for key in description[listed]}

    each = description.get("each_its_own", False)
    if any(value.dim() == 0 or len(value) != description["trials"] for value in part("update", "shared").values()):
        raise UserError(f"{tensors} does not have the {description['trials']} trials that {facts} names: {AGAIN}")
    try:
        observation = Observation(
            weights={} if each else part("weights", "parameters"),
            own=part("own", "parameters") if each else {},
            update=part("update", "shared"),
            kind=description["kind"],
            mode=description["mode"],
            model=description["model"],
            trials=tuple(range(description["trials"])),
            buffers=part("buffers", "buffers"),
        )
    except UserError as error:
        raise UserError(f"{facts}: {error}") from None
    observation = replace(observation, silent=_silent(observation.update, description.get("silent", {})))
    return observation, Knowledge(description["threat_model"], description["facts"])


def _silent(update: Mapping[str, Tensor], said: Mapping[str, Silence]) -> dict[int, Silence]:
    """Return the trials that say nothing: those that a file names, and updates of zero in a file from elsewhere."""
    moved = torch.stack([value.unsqueeze(-1).flatten(1).any(1) for value in update.values()]).any(0)
    zero: dict[int, Silence] = {trial: "zero update" for trial, some in enumerate(moved.tolist()) if not some}
    return {**zero, **{int(trial): why for trial, why in said.items()}}


def _refuse_surplus(threat_model: str, facts: Mapping[str, Any], place: str = "") -> None:
    surplus = set(facts) - granted(threat_model)
    if surplus:
        raise UserError(f"{place}threat model '{threat_model}' does not grant {', '.join(sorted(surplus))}")
