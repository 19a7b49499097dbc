"""The folder between the house and a guest's attack: updates go in, what was read comes back.

The private images are in neither direction. A file is there when it is whole: it is renamed last.
"""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from leaklab.attacks.base import Budget, Case
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors
from leaklab.records.streams import stream

PRIOR, ALL, ENDED = "prior.safetensors", "all.json", "ended.json"


def put(folder: Path, name: str, observation: Observation, knowledge: Knowledge) -> None:
    """Write what an attacker is given of one defense."""
    save_observation(folder / f"{name}.safetensors", folder / f"{name}.json", observation, knowledge)


def put_prior(folder: Path, generator: ClassGaussianGenerator) -> None:
    """Write the prior that all attackers have."""
    write_tensors(folder / PRIOR, {name: value.contiguous() for name, value in generator.state_dict().items()})


def put_names(folder: Path, names: list[str]) -> None:
    """Say which defenses there are, when all of them are there."""
    write_json(folder / ALL, names)


def names(folder: Path) -> list[str] | None:
    """Return which defenses there are; None while not all are there."""
    return list(read_json(folder / ALL)) if (folder / ALL).is_file() else None


def case(folder: Path, name: str, evaluations: int, seed: int) -> Case:
    """Return what an attacker is given of one defense."""
    observation, knowledge = load_observation(folder / f"{name}.safetensors", folder / f"{name}.json")
    state = read_tensors(folder / PRIOR)
    shape = tuple(knowledge.require("input_shape"))
    prior = ClassGaussianGenerator(state["factor"].shape[2], len(state["mean"]), shape).to(observation.like.dtype)
    prior.load_state_dict(state, strict=True)
    prior.frozen()
    streams = partial(stream, seed, "guest", name)
    return Case(observation, knowledge, Budget(evaluations, 1), streams, None, prior)


def answer(folder: Path, name: str, images: Tensor, labels: Tensor, seconds: float) -> None:
    """Write what an attack read: images [N, C, H, W] and labels [N]."""
    found = {"images": images.contiguous(), "labels": labels.contiguous(), "seconds": torch.tensor(seconds)}
    write_tensors(folder / f"{name}.read.safetensors", found)


def fail(folder: Path, name: str, why: str) -> None:
    """Write why an attack read nothing."""
    write_json(folder / f"{name}.failed.json", why)


def answered(folder: Path, name: str) -> dict[str, Tensor] | str | None:
    """Return what an attack read, or why it did not; None while it is at it."""
    if (folder / f"{name}.failed.json").is_file():
        return str(read_json(folder / f"{name}.failed.json"))
    place = folder / f"{name}.read.safetensors"
    return read_tensors(place) if place.is_file() else None


def end(folder: Path) -> None:
    """Say that no more answers come."""
    write_json(folder / ENDED, True)


def ended(folder: Path) -> bool:
    """Tell whether no more answers come."""
    return (folder / ENDED).is_file()
