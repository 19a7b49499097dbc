"""The arena ``tiny``: six digits, one at a time, on an MLP and a LeNet that nobody trained, and who attacks there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from leaklab.attacks.adaptive.emulation import after_clipping, on_support
from leaklab.attacks.adaptive.laws import LaplaceLaw
from leaklab.attacks.adaptive.noise import NormalLikelihood
from leaklab.attacks.analytic import AnalyticReconstruction
from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.base import Attack, Budget, Case, Reconstruction
from leaklab.attacks.learnt import entries, linear
from leaklab.attacks.matching.distances import Distance, profiled_scale
from leaklab.guests.calls import Situation, Subject, sent
from leaklab.guests.laboratory import Update, rms
from leaklab.guests.maps import Fact
from leaklab.guests.moments import CLASSES, Labelled, Stage, digits, private_digits, stage
from leaklab.guests.networks import stage_of
from leaklab.metrics.pixel import mean_squared_error
from leaklab.models.generators.base import Generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.streams import stream

UPDATES = 6
REHEARSED, DRAWS = 20, 8
CHOOSING = 2
"""Public images on which the learnt law is chosen that is used."""
EVALUATIONS, REHEARSING = 60, 30
LEARNT = AnnealedLikelihood(coarsest=0.3, finest=0.003, stages=5)
FIRST_CLIENT = 1000
"""Clients of rehearsals; those that are attacked are numbered from 0."""


@dataclass(frozen=True)
class Attacker:
    """Somebody who reads updates.

    Attributes:
        kind: ``undefended``, ``unaware``, ``rule``, ``learnt`` or ``noise``.
        by: what it is called.
        attack: the search.
        distance: the loss that knows the defense; None for the attack's own.
    """

    kind: str
    by: str
    attack: Attack
    distance: Distance | None = None


@dataclass(frozen=True)
class Reading:
    """What an attacker made of updates.

    Attributes:
        attacker: who.
        images: [T, C, H, W] in [0, 1].
        labels: [T].
    """

    attacker: Attacker
    images: Tensor
    labels: Tensor

    def decibels(self, truth: Tensor) -> list[float]:
        """Return the PSNR of each image in dB, at most 150."""
        errors = mean_squared_error(self.images, truth)
        decibels = -10 * errors.nan_to_num(nan=1.0).clamp(min=1e-15).log10()
        return [float(one) for one in decibels]


@dataclass
class Tiny:
    """One network of the arena and a guest's defense on it.

    Attributes:
        subject: the guest.
        network: one of ``moments.NETWORKS``.
        seed: of the weights, the clients and the searches.
    """

    subject: Subject
    network: str
    seed: int = 0

    @cached_property
    def stage(self) -> Stage:
        """The network that is trained, with the weights that were sent."""
        return stage_of(self.subject, self.network, seed=self.seed)

    @cached_property
    def original(self) -> Stage:
        """The same without the guest, who may change it."""
        return stage(self.network, seed=self.seed)

    @cached_property
    def private(self) -> Labelled:
        """The images that are attacked."""
        every = private_digits()
        order = stream(self.seed, "private images").permutation(len(every.labels))[:UPDATES]
        return Labelled(every.images[order], every.labels[order])

    @cached_property
    def generator(self) -> Generator:
        """The prior: a Gaussian of each class of the public images."""
        public = digits()
        return ClassGaussian().fitted(public.images, public.labels, CLASSES).double()

    def moment(self, images: Tensor, labels: Tensor, client: int, draw: int = 0) -> Situation:
        """Return the moment of a client with one image."""
        return replace(self.stage.moment(images, labels), seed=self.seed, client=client, draw=draw)

    @cached_property
    def plain(self) -> list[Update]:
        """The gradients of the private images without the guest."""
        images, labels = self.private.images, self.private.labels
        return [self.original.gradient(images[k : k + 1], labels[k : k + 1]) for k in range(len(labels))]

    @cached_property
    def moments(self) -> list[Situation]:
        """The clients that are attacked."""
        images, labels = self.private.images, self.private.labels
        return [self.moment(images[k : k + 1], labels[k : k + 1], k) for k in range(len(labels))]

    @cached_property
    def defended(self) -> list[Update]:
        """What these clients send."""
        return [sent(self.subject, self.subject.new(), moment) for moment in self.moments]

    @cached_property
    def rehearsals(self) -> linear.Rehearsals:
        """Public images, defended by the attacker itself, with draws of its own."""
        public, gradients, outs = digits(), [], []
        for image in range(REHEARSED):
            for draw in range(DRAWS):
                images, labels = public.images[image : image + 1], public.labels[image : image + 1]
                moment = self.moment(images, labels, FIRST_CLIENT + image, draw)
                outs.append(sent(self.subject, self.subject.new(), moment))
                gradients.append(moment.gradients[0])
        names = list(outs[0])
        before, after = (
            tuple(torch.stack([one[name].flatten() for one in rows]) for name in names) for rows in (gradients, outs)
        )
        return linear.Rehearsals(before, after, DRAWS)

    def case(self, updates: Sequence[Mapping[str, Tensor]], attacker: Attacker, evaluations: int) -> Case:
        """Return what an attacker is given of updates: nothing of the images behind them."""
        given = self.original if attacker.kind in ("undefended", "noise") else self.stage
        update = {key: torch.stack([one[key] for one in updates]) for key in updates[0]}
        trials = tuple(range(len(updates)))
        observed = Observation(dict(given.weights), update, "gradient", "eval", given.model, trials)
        shape = tuple(digits().images.shape[1:])
        facts = {"weights": True, "architecture": True, "batch_size": 1, "input_shape": shape, "num_classes": CLASSES,
                 "input_range": (0.0, 1.0), "local_steps": 1}  # fmt: skip
        streams = partial(stream, self.seed, "guest", attacker.by)
        return Case(
            observed, Knowledge("guest", facts), Budget(evaluations, 1), streams, attacker.distance, self.generator
        )

    def read(
        self, attacker: Attacker, updates: Sequence[Mapping[str, Tensor]], evaluations: int = EVALUATIONS
    ) -> Reading:
        """Return what an attacker makes of updates."""
        found: Reconstruction = attacker.attack.reconstruct(self.case(updates, attacker, evaluations))
        return Reading(attacker, found.images[:, 0], found.labels[:, 0])

    def guesses(self) -> list[float]:
        """Return the PSNR of the better of two guesses: the mean of all public images, or of those of its class."""
        public = digits()
        every = public.images.mean(0)
        of_class = torch.stack(
            [public.images[public.labels == label].mean(0) for label in self.private.labels.tolist()]
        )
        nobody = Attacker("guess", "guess", AnnealedMap())
        both = (Reading(nobody, one, self.private.labels) for one in (every.expand_as(of_class), of_class))
        return [max(pair) for pair in zip(*(one.decibels(self.private.images) for one in both), strict=True)]

    def energy(self) -> float:
        """Return the root mean square of what the defense changes in an entry, on the network that is trained."""
        changes = [
            torch.cat([(out[name] - moment.gradients[0][name]).flatten() for name in out])
            for out, moment in zip(self.defended, self.moments, strict=True)
        ]
        return rms(torch.cat(changes))

    def noisy(self, sigma: float) -> list[Update]:
        """Return the plain gradients with normal noise."""
        return [
            {name: g + sigma * stream(self.seed, "noise", place, name).normal(*g.shape) for name, g in one.items()}
            for place, one in enumerate(self.plain)
        ]

    def learnt(self) -> Attacker:
        """Return the attacker whose law is learnt: of several the best on public images that none learnt from."""
        laws = {"linear law": linear.learnt, "law of the entry": entries.learnt}
        public, place = digits(), REHEARSED
        images, labels = public.images[place : place + CHOOSING], public.labels[place : place + CHOOSING]
        moments = [self.moment(images[k : k + 1], labels[k : k + 1], FIRST_CLIENT + place + k) for k in range(CHOOSING)]
        updates = [sent(self.subject, self.subject.new(), moment) for moment in moments]
        tried: list[tuple[float, Attacker]] = []
        for name, law in laws.items():
            attacker = Attacker("learnt", name, LEARNT, law(self.rehearsals))
            reading = self.read(attacker, updates, REHEARSING)
            errors = [10 ** (-value / 10) for value in reading.decibels(images)]
            missed = int((reading.labels != labels).sum())
            tried.append((sum(errors) / len(errors) + missed, attacker))
            if tried[-1][0] < 3e-5:
                break
        return min(tried, key=lambda pair: pair[0])[1]


def by_rule(facts: Sequence[Fact], network: str) -> Iterator[Attacker]:
    """Yield the attackers of the house that facts call for; one who asks for nothing but the direction always comes."""
    found = {fact.name: fact.value for fact in facts}
    search = AnnealedMap()
    if network == "mlp":
        yield Attacker("rule", "analytic", AnalyticReconstruction())
    noise, clip = found.get("noise"), found.get("clips")
    if noise and isinstance(noise["sigma"], float):
        bound = clip["bound"] if clip and clip["scope"] == "whole" else None
        if noise["law"] == "Laplace" and bound is None:
            law = LaplaceLaw(noise["sigma"] / 2**0.5)
            yield Attacker("rule", "matched-laplace", AnnealedLikelihood(), law)
        elif noise["law"] in ("normal", "uniform"):
            name = "matched-noise" + (", a normal law in place of a uniform one" if noise["law"] == "uniform" else "")
            yield Attacker("rule", name, search, NormalLikelihood(noise["sigma"], bound))
    elif clip and clip["scope"] == "whole":
        yield Attacker("rule", "clip-emulation", search, after_clipping)
    if found.get("zeros", {}).get("rest") == "exact" and not noise:
        yield Attacker("rule", "support-only", search, on_support)
    yield Attacker("rule", "profiled-scale", search, profiled_scale)
