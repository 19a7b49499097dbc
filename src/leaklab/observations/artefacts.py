"""The files of an observation: what the server sees of a capture. The private side is in ``truth.py``."""

from pathlib import Path

from torch import Tensor

from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.threat_models import granted
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors


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
    surplus = set(knowledge.facts) - granted(knowledge.threat_model)
    if surplus:
        raise UserError(f"threat model '{knowledge.threat_model}' does not grant {', '.join(sorted(surplus))}")
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

    each = description.get("each_its_own", False)
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
    return observation, Knowledge(description["threat_model"], description["facts"])
