"""A guest's defense on one network of an arena, and what attackers who see its updates make of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Attack, Budget, Case, Reconstruction
from leaklab.attacks.learnt import linear
from leaklab.attacks.matching.distances import Distance
from leaklab.guests.calls import Situation, Subject, sent
from leaklab.guests.laboratory import Update, alike, rms
from leaklab.guests.moments import Ground, Labelled, Stage, tiny
from leaklab.guests.networks import stage_of
from leaklab.metrics.pixel import mean_squared_error
from leaklab.models.generators.base import Generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.streams import stream

EARLIER, ROUNDS = 2, 8
"""Rounds before the one that is attacked, where a defense remembers; rounds whose mean is attacked, where it draws."""
OF_PLAIN = ("undefended", "noise", "noise of the same price")
"""Kinds of attackers that are given updates of the network without the guest."""
FIRST_CLIENT = 1000
"""Clients of rehearsals; those that are attacked are numbered from 0."""


@dataclass(frozen=True)
class Attacker:
    """Somebody who reads updates.

    Attributes:
        kind: ``undefended``, ``unaware``, ``rule``, ``learnt``, ``rounds``, or one of ``OF_PLAIN``.
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
class Exposure:
    """One network of an arena and a guest's defense on it.

    Attributes:
        subject: the guest.
        network: one of the arena's.
        seed: of the weights, the clients and the searches.
        earlier: rounds that each client took part in before, with other images, for a defense that remembers them.
        arena: the images and networks.
    """

    subject: Subject
    network: str
    seed: int = 0
    earlier: int = 0
    arena: Ground = field(default_factory=tiny)

    @cached_property
    def stage(self) -> Stage:
        """The network that is trained, with the weights that were sent."""
        return stage_of(self.subject, self.arena, self.network, seed=self.seed)

    @cached_property
    def original(self) -> Stage:
        """The same without the guest, who may change it."""
        return self.arena.stage(self.network, seed=self.seed)

    @cached_property
    def private(self) -> Labelled:
        """The images that are attacked."""
        every = self.arena.private
        order = stream(self.seed, "private images").permutation(len(every.labels))[: self.arena.file.updates]
        return Labelled(every.images[order], every.labels[order])

    @cached_property
    def generator(self) -> Generator:
        """The prior: a Gaussian of each class of the public images."""
        public, prior = self.arena.public, ClassGaussian(self.arena.file.components)
        return prior.fitted(public.images, public.labels, self.arena.classes).double()

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
        return [self.out(moment) for moment in self.moments]

    @cached_property
    def is_silent(self) -> bool:
        """Whether one client sends one update of different images, with the same draws, so that it trains nobody."""
        first, *others = [self.out(replace(moment, client=0)) for moment in self.moments]
        return bool(others) and all(alike(one, first) for one in others)

    def out(self, moment: Situation) -> Update:
        """Return what a client sends, after the rounds before."""
        client, arena = self.subject.new(), self.arena
        pool = arena.public if moment.client >= FIRST_CLIENT else arena.private
        for before in range(self.earlier):
            place = stream(self.seed, "earlier", moment.client, before, moment.draw).permutation(len(pool.labels))[:1]
            other = self.moment(pool.images[place], pool.labels[place], moment.client, moment.draw)
            sent(self.subject, client, replace(other, round=before))
        return sent(self.subject, client, replace(moment, round=self.earlier))

    def mean_of_rounds(self, moment: Situation) -> Update:
        """Return the mean of what a client sends in ``ROUNDS`` rounds that find it with one image and one network."""
        client = self.subject.new()
        outs = [sent(self.subject, client, replace(moment, round=at, draw=at)) for at in range(ROUNDS)]
        return {name: torch.stack([one[name] for one in outs]).mean(0) for name in outs[0]}

    @cached_property
    def sent_names(self) -> list[str]:
        """The parameters that are not hidden."""
        return list(self.defended[0])

    @cached_property
    def rehearsals(self) -> linear.Rehearsals:
        """Public images, defended by the attacker itself, with draws of its own."""
        return self.rehearsed(self.arena.file.draws, self.out)

    def rehearsed(self, draws: int, out: Callable[[Situation], Update]) -> linear.Rehearsals:
        """Return each public image so many times, and what is sent of it."""
        public, gradients, outs = self.arena.public, [], []
        for image in range(self.arena.file.rehearsals):
            for draw in range(draws):
                images, labels = public.images[image : image + 1], public.labels[image : image + 1]
                moment = self.moment(images, labels, FIRST_CLIENT + image, draw)
                outs.append(out(moment))
                gradients.append(moment.gradients[0])
        before, after = (
            tuple(torch.stack([one[name].flatten() for one in rows]) for name in self.sent_names)
            for rows in (gradients, outs)
        )
        return linear.Rehearsals(before, after, draws)

    def case(self, updates: Sequence[Mapping[str, Tensor]], attacker: Attacker, evaluations: int | None = None) -> Case:
        """Return what an attacker is given of updates: nothing of the images behind them."""
        given = self.original if attacker.kind in OF_PLAIN else self.stage
        update = {key: torch.stack([one[key] for one in updates]) for key in updates[0]}
        trials = tuple(range(len(updates)))
        observed = Observation(dict(given.weights), update, "gradient", "eval", given.model, trials)
        facts = {"weights": True, "architecture": True, "batch_size": 1, "input_shape": self.arena.shape,
                 "num_classes": self.arena.classes, "input_range": (0.0, 1.0), "local_steps": 1}  # fmt: skip
        streams = partial(stream, self.seed, "guest", attacker.by)
        budget = Budget(evaluations or self.arena.file.evaluations, 1)
        return Case(observed, Knowledge("guest", facts), budget, streams, attacker.distance, self.generator)

    def read(
        self, attacker: Attacker, updates: Sequence[Mapping[str, Tensor]], evaluations: int | None = None
    ) -> Reading:
        """Return what an attacker makes of updates."""
        found: Reconstruction = attacker.attack.reconstruct(self.case(updates, attacker, evaluations))
        return Reading(attacker, found.images[:, 0], found.labels[:, 0])

    def guesses(self) -> Reading:
        """Return the better of two guesses of each image: the mean of all public images, or of those of its class."""
        public = self.arena.public
        of_class = torch.stack(
            [public.images[public.labels == label].mean(0) for label in self.private.labels.tolist()]
        )
        nobody = Attacker("guess", "mean images", AnnealedMap())
        every = public.images.mean(0).expand_as(of_class)
        both = [Reading(nobody, one, self.private.labels) for one in (every, of_class)]
        first, second = (torch.tensor(one.decibels(self.private.images)) for one in both)
        better = (first >= second).view(-1, 1, 1, 1)
        return replace(both[0], images=torch.where(better, every, of_class))

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
