"""The files of a capture: ``observation.*`` for the attacker, ``truth.*`` for the judge; nothing is in both."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.threat_models import granted
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors


@dataclass(frozen=True)
class Truth:
    """The private side of a capture.

    Attributes:
        images: [T, B, C, H, W] in [0, 1].
        labels: [T, B] int64.
        rates: [T, E] local learning rates really used; NaN in steps that a client left out. Of several rounds the mean.
        trials: for each trial the images' index in the split and the number of the defense's draw.
    """

    images: Tensor
    labels: Tensor
    rates: Tensor
    trials: tuple[Mapping[str, Any], ...]


def save_observation(tensors: Path, facts: Path, observation: Observation, knowledge: Knowledge) -> None:
    """Write ``observation.safetensors`` and ``observation.json``.

    Raises:
        UserError: the knowledge holds a fact that its threat model withholds, or the update is not finite.
    """
    infinite = [name for name, value in observation.update.items() if not value.isfinite().all()]
    if infinite:
        raise UserError(
            f"the update is not finite (parameter {infinite[0]}): no attack can match it; lower the rate, the steps or "
            "the defense's noise in the item's block"
        )
    surplus = set(knowledge.facts) - granted(knowledge.threat_model)
    if surplus:
        raise UserError(f"threat model '{knowledge.threat_model}' does not grant {', '.join(sorted(surplus))}")
    parts = {"weights": observation.weights, "update": observation.update, "buffers": observation.buffers}
    write_tensors(tensors, {f"{part}/{name}": value for part, named in parts.items() for name, value in named.items()})
    dtype = str(next(iter(observation.weights.values())).dtype).removeprefix("torch.")
    # safetensors keeps no order, and an attack on the last layer has to know which layer is last
    description = {
        "kind": observation.kind,
        "mode": observation.mode,
        "model": dict(observation.model),
        "parameters": list(observation.weights),
        "shared": list(observation.update),
        "buffers": list(observation.buffers),
        "trials": len(observation.trials),
        "dtype": dtype,
        "threat_model": knowledge.threat_model,
        "facts": dict(knowledge.facts),
    }
    write_json(facts, description)


def load_observation(tensors: Path, facts: Path) -> tuple[Observation, Knowledge]:
    """Read what ``save_observation`` wrote.

    Raises:
        UserError: a file is missing or damaged.
    """
    named, description = read_tensors(tensors), read_json(facts)

    def part(name: str, listed: str) -> dict[str, Tensor]:
        return {key: named[f"{name}/{key}"] for key in description[listed]}

    observation = Observation(
        weights=part("weights", "parameters"),
        update=part("update", "shared"),
        kind=description["kind"],
        mode=description["mode"],
        model=description["model"],
        trials=tuple(range(description["trials"])),
        buffers=part("buffers", "buffers"),
    )
    return observation, Knowledge(description["threat_model"], description["facts"])


def save_truth(tensors: Path, facts: Path, truth: Truth) -> None:
    """Write ``truth.safetensors`` and ``truth.json``."""
    write_tensors(tensors, {"images": truth.images, "labels": truth.labels, "rates": truth.rates})
    write_json(facts, {"trials": [dict(trial) for trial in truth.trials]})


def load_truth(tensors: Path, facts: Path) -> Truth:
    """Read what ``save_truth`` wrote.

    Raises:
        UserError: a file is missing or damaged.
    """
    named = read_tensors(tensors)
    trials = tuple(read_json(facts)["trials"])
    return Truth(images=named["images"], labels=named["labels"], rates=named["rates"], trials=trials)
