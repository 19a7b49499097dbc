"""Rehearsals: what the clients' own program makes of public images, at the weights that a server sent.

An attacker who has the program of a defense runs it himself. What he sees of it, pairs of a gradient and what is sent
of it, is all that the laws of ``attacks/learnt`` are made of. And on public updates he knows how near he came: so he
tries there whether his search should be split with a learnt prior, which leads to a wrong image where it knows too
little.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log10, sqrt

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import LearntLaw
from leaklab.attacks.base import Reconstruction
from leaklab.attacks.latents.splitting import without_splits
from leaklab.attacks.learnt import laws
from leaklab.attacks.learnt.linear import Rehearsals, plain_law
from leaklab.attacks.matching.distances import OnlyWidened
from leaklab.attacks.reconstructions import alone
from leaklab.attacks.run import attacked
from leaklab.captures.capture import capture_at
from leaklab.captures.observe import NO_DEFENSE
from leaklab.captures.start import Start
from leaklab.captures.truth import Truth
from leaklab.data.dataset import Dataset, first_of_class
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.specs.attack import AttackerSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.law import RehearsalSpec


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Public updates, each of them defended several times.

    Attributes:
        plain: [U] updates without the defense, kind gradient.
        sent: [U * draws] updates with it; the draws of one are side by side.
        seen: the same as a server sees them: gradients, or deltas of several steps.
        truth: the images behind ``sent``, which are public.
        draws: how often each was defended.
    """

    plain: Observation
    sent: Observation
    seen: Observation
    truth: Truth
    draws: int

    def first(self, updates: int, names: Sequence[str]) -> Rehearsals:
        """Return the pairs of the first updates, float64, one tensor of each name."""
        rows = updates * self.draws
        before = tuple(_rows(self.plain.update[name][:updates].repeat_interleave(self.draws, 0)) for name in names)
        after = tuple(_rows(self.sent.update[name][:rows]) for name in names)
        return Rehearsals(before, after, self.draws)

    def rows(self, first: int, last: int) -> list[int]:
        """Return the places of one draw of each update from the first to below the last."""
        return list(range(first * self.draws, last * self.draws, self.draws))

    @property
    def updates(self) -> int:
        """How many there are, U."""
        return len(self.sent.trials) // self.draws


def rehearse(spec: CaptureSpec, observation: Observation, knowledge: Knowledge, dataset: Dataset) -> Rehearsal:
    """Return what clients with public images send, with and without their defense.

    Args:
        spec: of those clients.
        observation: whose weights and running statistics the server sent.
        knowledge: of that observation; says how inputs are normalised.
        dataset: of the public images.

    Raises:
        UserError: each client has weights of its own or sends only a part of them, or the public images do not fit the
            network.
    """
    if observation.own:
        raise UserError("law: clients with weights of their own are not rehearsed: take another transform")
    shape, classes = knowledge.require("input_shape", "law"), int(knowledge.require("num_classes", "law"))
    if list(dataset.shape) != list(shape) or dataset.num_classes > classes:
        raise UserError(
            f"law: the images of '{dataset.name}' are not those of the attacked network ({list(shape)}, {classes} "
            "classes): take a generator of the same kind of images"
        )
    dataset, normalises = replace(dataset, num_classes=classes), knowledge.knows("normalisation")
    if normalises:
        moments = knowledge.require("normalisation", "law")
        dataset = replace(dataset, mean=torch.tensor(moments["mean"]), std=torch.tensor(moments["std"]))
    start = Start({**observation.weights, **observation.buffers}, {}, dataset, normalises, spec.seed)
    plain, _, _ = capture_at(spec.model_copy(update={"defense": NO_DEFENSE, "draws": 1}), start)
    sent, granted, truth = capture_at(spec, start)
    if set(sent.update) != set(observation.update):
        raise UserError("law: clients of this algorithm send a part of their weights only: take another transform")
    before, after = (one.as_gradient(granted, "law") for one in (plain, sent))
    return Rehearsal(before, after, sent, truth, spec.draws)


SEARCH = {"coarsest": 0.3, "finest": 0.003, "stages": 5}
"""Of ``annealed-likelihood``, by which laws are tried."""
ENOUGH = 3e-5
"""Mean square error at which no further law is tried."""
Error = Callable[[Reconstruction, Truth], float]


def best_law(
    spec: RehearsalSpec, rehearsal: Rehearsal, knowledge: Knowledge, generator: Generator, device: str, error: Error
) -> tuple[str, OnlyWidened, dict[str, float]]:
    """Return the law that reads further public updates best, its name, and the error of each that was tried.

    Args:
        spec: how many updates are learnt from, and how long a trial searches.
        rehearsal: those updates, and the further ones.
        knowledge: of the attacked observation.
        generator: prior of the trials.
        device: where they search.
        error: of what was found, beside the public images that were looked for.

    At weights at which nothing is finite it is the law of no defense, and nothing is tried.
    """
    rows, granted = rehearsal.rows(spec.images, rehearsal.updates - spec.gate), _granted(rehearsal, knowledge)
    observation, truth = rehearsal.sent.select(rows), rehearsal.truth.select(rows)
    attacker = AttackerSpec(
        attack=Component(name="annealed-likelihood", settings=SEARCH | {"label_rule": _label_rule(knowledge)}),
        transform=Component(name="learnt"),
        iterations=spec.iterations,
        seed=spec.seed,
    )
    names = list(observation.update)
    shapes = [observation.update[name].shape[1:] for name in names]
    pairs, tried, found = rehearsal.first(spec.images, names), dict[str, float](), dict[str, OnlyWidened]()
    if not all(bool(value.isfinite().all()) for value in (*pairs.gradients, *pairs.sent)):
        return laws.LINEAR, plain_law(len(names)), {}  # weights of a training that diverged, which nobody attacks
    for name, law in laws.laws(pairs, shapes):
        found[name] = law
        description, tensors = laws.written(name, law)
        learnt = description, {key: value.to(device) for key, value in tensors.items()}
        tried[name] = error(attacked(attacker, observation, granted, device, generator, learnt), truth)
        if tried[name] < ENOUGH:
            break
    best = min(tried, key=lambda name: tried[name] if isfinite(tried[name]) else inf)
    return best, found[best], tried


def gains_of_splits(
    spec: RehearsalSpec,
    rehearsal: Rehearsal,
    knowledge: Knowledge,
    device: str,
    generator: Generator,
    law: LearntLaw | None,
    error: Error,
) -> list[float]:
    """Return how much more an attack reads with its splits than without, in dB, of each of the last public updates.

    Args:
        spec: the attack, its transform and evaluations, and how many updates.
        rehearsal: those updates, behind the ones that laws are made of.
        knowledge: of the attacked observation.
        device: where it searches.
        generator: that denoises.
        law: for a transform that takes one, else None.
        error: see ``best_law``.
    """
    assert spec.attack
    assert spec.transform
    granted, found = _granted(rehearsal, knowledge), []
    rows = rehearsal.rows(rehearsal.updates - spec.gate, rehearsal.updates)
    for attack in (without_splits(spec.attack), spec.attack):
        attacker = AttackerSpec(attack=attack, transform=spec.transform, iterations=spec.evaluations, seed=spec.seed)
        images = attacked(attacker, rehearsal.seen.select(rows), granted, device, generator, law)
        errors = [error(alone(images, place), rehearsal.truth.select([row])) for place, row in enumerate(rows)]
        found.append([10 * log10(one) if one > 0 else -inf for one in errors])
    return [before - after for before, after in zip(*found, strict=True)]


def helps(gains: Sequence[float]) -> bool:
    """Return whether the mean gain is above its standard error: in doubt the search is not split."""
    if len(gains) < 2 or not all(isfinite(one) for one in gains):
        return False
    mean = sum(gains) / len(gains)
    return mean > sqrt(sum((one - mean) ** 2 for one in gains) / (len(gains) - 1) / len(gains))


def unseen(dataset: Dataset, split: str, taught: int) -> Dataset:
    """Return the data set without the first images of each class of a part, of which a prior was made; 0 for all.

    Raises:
        UserError: nothing is left of the part.
    """
    if not taught:
        return dataset  # nothing was held back: what is rehearsed is what the prior was made of
    images, labels = dataset.part(split)
    left = ~first_of_class(labels, taught)
    if not bool(left.any()):
        raise UserError(f"law: a prior of {taught} images a class leaves no public image to rehearse: lower per_class")
    if split == "train":
        return replace(dataset, train_images=images[left], train_labels=labels[left], train_groups=None)
    return replace(dataset, test_images=images[left], test_labels=labels[left])


def _granted(rehearsal: Rehearsal, knowledge: Knowledge) -> Knowledge:
    """Return what an attacker knows of rehearsed updates: their labels, where those of private ones are known."""
    # by trial: those that are learnt from have their places too
    labels = {"labels": rehearsal.truth.labels.tolist()} if knowledge.knows("labels") else {}
    return replace(knowledge, facts={**knowledge.facts, **labels})


def _label_rule(knowledge: Knowledge) -> str:
    if knowledge.knows("labels"):
        return "known"
    return "likelihood" if int(knowledge.require("batch_size", "law")) == 1 else "counts"


def _rows(value: Tensor) -> Tensor:
    return value.double().flatten(1)
