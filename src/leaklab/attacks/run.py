"""From what an attacker is told to a reconstruction, and to the loss that is searched as a function of latents."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import InformedTransform, LearntLaw, TaughtTransform, Transform, prepared_by
from leaklab.attacks.base import Attack, Budget, Case, Reconstruction, Streams
from leaklab.attacks.latents.landscape import LatentMatching
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.reconstructions import NO_LABEL, in_order, joined, unread
from leaklab.attacks.search.savepoints import unkept
from leaklab.attacks.starts import StartRecord
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.client_requirements import check_optimizer
from leaklab.observations.requirements import check, check_prior, check_transform, needs
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.purity import watched
from leaklab.records.streams import stream
from leaklab.records.tensor_algebra import NO_ALGEBRA
from leaklab.records.traits import chosen
from leaklab.specs.attack import TRANSFORMS, AttackerSpec

# What an attack returns is checked once, where it comes back: a plug-in of one's own may get it wrong.


def check_shapes(found: Reconstruction, observation: Observation, knowledge: Knowledge, attack: str) -> None:
    """Refuse a reconstruction that is not one of these trials.

    Args:
        found: what ``reconstruct`` returned.
        observation: the T trials that it was given.
        knowledge: tells the samples B of a step and the shape of an input, where the threat model grants them; an
            update of E steps may have up to E B samples, of whole batches.
        attack: plug-in name, for the message.

    Raises:
        UserError: with the plug-in's file, the field, its shape and the one that was expected.
    """
    file = f"attacks/{attack.replace('-', '_')}.py"
    if not isinstance(found, Reconstruction):
        raise UserError(f"{file}: reconstruct returned {type(found).__name__}: return a Reconstruction")
    trials, own = len(observation.trials), found.labels.shape[-1]
    batch, steps = knowledge.facts.get("batch_size", own), knowledge.facts.get("local_steps", 1)
    batch = own if own in range(batch, steps * batch + 1, batch) else batch
    sample = tuple(knowledge.facts.get("input_shape", found.images.shape[2:]))
    starts = tuple(found.candidates.shape[1:2])
    expected = {
        "images": (trials, batch, *sample),
        "labels": (trials, batch),
        "candidates": (trials, *starts, batch, *sample),
        "candidate_losses": (trials, *starts),
        "scale": (trials,),
    }
    for field, shape in expected.items():
        returned = tuple(getattr(found, field).shape)
        if returned != shape:
            raise UserError(f"{file}: reconstruct returned {field} of shape {list(returned)}: make it {list(shape)}")


def attacked(
    spec: AttackerSpec,
    observation: Observation,
    knowledge: Knowledge,
    device: str,
    generator: Generator | None,
    law: LearntLaw | None = None,
) -> Reconstruction:
    """Return what the attack, after its transform, makes of an observation: on the CPU, images on the [0, 1] scale.

    An update that says nothing of its samples is not attacked: the answer is ``reconstructions.unread``.
    A trial of which linear algebra makes nothing is lost, and no other: it has no finite number and is diverged.

    Args:
        spec: which attack, transform and budget.
        observation: some or all trials of the capture.
        knowledge: what the threat model grants.
        device: where the attack works.
        generator: for attacks that search among its images, else None.
        law: on that device, for a transform that takes one, else None.

    Raises:
        UserError: see ``Transform.prepare`` and ``Attack.reconstruct``.
    """
    searched = partial(_searched, spec, knowledge=knowledge, device=device, generator=generator, law=law)
    if not observation.silent:
        return searched(observation)
    speaking = observation.speaking
    rows = [*speaking, *(row for row in range(len(observation.trials)) if row not in speaking)]
    held = chosen("attacks", spec.attack.name, spec.attack.settings, "samples")
    samples = held or int(knowledge.require("batch_size", spec.attack.name))
    shape = tuple(knowledge.require("input_shape", spec.attack.name))
    parts = [unread(observation.select(rows[len(speaking) :]), (samples, *shape))]
    if speaking:
        parts.insert(0, searched(observation.select(speaking)))
    return in_order(joined(parts), rows)


def _searched(
    spec: AttackerSpec,
    observation: Observation,
    knowledge: Knowledge,
    device: str,
    generator: Generator | None,
    law: LearntLaw | None,
) -> Reconstruction:
    transform, attack = _planned(spec, knowledge, law)
    budget = Budget(spec.iterations, spec.restarts)
    streams = _streams(spec)
    unit = partial(_on_unit_range, knowledge.require("input_range", spec.attack.name))

    def of(some: Observation) -> Reconstruction:
        parts = []
        seen = {"observation": some, "knowledge": knowledge}
        with watched(transform, call="prepare", given=seen, draws="no randomness, as it is given none"):
            prepared = prepared_by(transform, some, knowledge)
        for one in prepared:
            case = Case(one.observation, knowledge, budget, streams, one.distance, generator)
            seen = {"case.observation": case.observation, "case.knowledge": knowledge}
            with watched(attack, call="reconstruct", given=seen, draws="case.streams(name)"):
                found = attack.reconstruct(case)
            check_shapes(found, one.observation, knowledge, spec.attack.name)
            on_unit = replace(found, images=unit(found.images), candidates=unit(found.candidates), scale=one.scale)
            parts.append(on_unit.cpu())
        return parts[0] if len(parts) == 1 else joined(parts)

    seen = observation.to(device)
    try:
        return of(seen)
    except NO_ALGEBRA:
        starts = spec.restarts if attack.requirements.searches else 1
        return _one_by_one(of, seen, knowledge, spec, starts)


def _one_by_one(
    of: Callable[[Observation], Reconstruction],
    seen: Observation,
    knowledge: Knowledge,
    spec: AttackerSpec,
    starts: int,
) -> Reconstruction:
    """Return what the attack makes of each trial alone, which does not depend on the others; see ``attacked``."""
    parts: list[Reconstruction | None] = []
    with unkept():
        for row in range(len(seen.trials)):
            try:
                parts.append(of(seen.select([row])))
            except NO_ALGEBRA:
                parts.append(None)
    like = next((part for part in parts if part is not None), None) or _nothing(seen, knowledge, spec, starts)
    lost = [_lost(like, trial) if part is None else part for part, trial in zip(parts, seen.trials, strict=True)]
    return joined(lost)


def _nothing(seen: Observation, knowledge: Knowledge, spec: AttackerSpec, starts: int) -> Reconstruction:
    """Return a reconstruction of one trial in the shape that the attack would have given it."""
    batch = int(spec.attack.settings.get("samples") or knowledge.require("batch_size", spec.attack.name))
    shape = (batch, *knowledge.require("input_shape", spec.attack.name))
    number = next(iter(seen.update.values())).new_empty(()).cpu()
    return Reconstruction(
        images=number.expand(1, *shape),
        labels=torch.full((1, batch), NO_LABEL),
        candidates=number.expand(1, starts, *shape),
        candidate_losses=number.expand(1, starts),
        starts=(),
    )


def _lost(like: Reconstruction, trial: int) -> Reconstruction:
    """Return a trial without any finite number, in the shape of another one of the attack."""
    return Reconstruction(
        images=torch.full_like(like.images, torch.nan),
        labels=torch.full_like(like.labels, NO_LABEL),
        candidates=torch.full_like(like.candidates, torch.nan),
        candidate_losses=torch.full_like(like.candidate_losses, inf),
        starts=(StartRecord(trial, 0, inf, 0, 0, True, "diverged"),),
        latents=None if like.latents is None else torch.full_like(like.latents, torch.nan),
        certified=None if like.certified is None else torch.zeros_like(like.certified),
    )


def check_granted(spec: AttackerSpec, kind: str, knowledge: Knowledge) -> None:
    """Refuse an attack on a file whose threat model withholds what it uses, or on a client that it is not made for.

    Raises:
        UserError: says what is missing or does not fit: generator, fact, optimizer, or the transform's defense.
    """
    attack, transform = spec.attack, spec.transform
    check_prior(attack.name, spec.generator)
    check(
        attack.name, attack.settings, knowledge.threat_model, transform.name, transform.settings, kind, spec.generator
    )
    if knowledge.knows("optimizer"):
        check_optimizer(attack.name, knowledge.require("optimizer")["name"])
    made_for = "defense" in needs(transform.name, transform.settings, TRANSFORMS) or knowledge.knows("defense")
    defense = knowledge.require("defense", transform.name)["name"] if made_for else None
    check_transform(transform.name, defense, knowledge.require("batch_size", transform.name))


def planned_matching(
    spec: AttackerSpec,
    observation: Observation,
    knowledge: Knowledge,
    generator: Generator,
    distance: Distance | None = None,
) -> LatentMatching:
    """Return the loss that the attack minimises after its transform.

    Args:
        spec: which attack and transform.
        observation: of the capture, on the device where the loss is to be computed.
        knowledge: what the threat model grants.
        generator: frozen; makes the images of latents.
        distance: another one than the attack's own, on the same prepared observation.

    Raises:
        UserError: the attack searches no latents, or those of several images together; see also ``Transform.prepare``.
    """
    transform, attack = _planned(spec, knowledge)
    matching_of = getattr(attack, "matching", None)
    if matching_of is None:
        raise UserError(f"attack '{spec.attack.name}' shows no loss of latents: choose ggl")
    alone = prepared_by(transform, observation, knowledge)
    if len(alone) > 1:
        raise UserError(f"transform '{spec.transform.name}' makes a network for each client: show one trial")
    (prepared,), budget = alone, Budget(spec.iterations, spec.restarts)
    case = Case(prepared.observation, knowledge, budget, _streams(spec), distance or prepared.distance, generator)
    matching: LatentMatching = matching_of(case)[0]
    if matching.batch > 1:
        raise UserError(f"attack '{spec.attack.name}' searches {matching.batch} images together: set joint: false")
    return matching


def _on_unit_range(input_range: tuple[float, float], inputs: Tensor) -> Tensor:
    low, high = input_range
    return inputs if (low, high) == (0.0, 1.0) else (inputs - low) / (high - low)


def _streams(spec: AttackerSpec) -> Streams:
    return partial(stream, spec.seed, "attack")


def _planned(spec: AttackerSpec, knowledge: Knowledge, law: LearntLaw | None = None) -> tuple[Transform, Attack]:
    """Return the transform with what it reads from the facts or was taught, and the attack."""
    transform: Transform = plugins.load("attacks/adaptive", spec.transform.name, spec.transform.settings)
    if isinstance(transform, InformedTransform):
        transform = transform.informed(knowledge)
    if isinstance(transform, TaughtTransform) and law is not None:
        transform = transform.taught(*law)
    attack: Attack = plugins.load("attacks", spec.attack.name, spec.attack.settings)
    return transform, attack
