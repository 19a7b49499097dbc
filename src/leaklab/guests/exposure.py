"""A guest's defense on one network of an arena, and what attackers who see its updates make of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Attack, Budget, Case, Reconstruction
from leaklab.attacks.learnt import linear
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.reconstructions import NO_LABEL
from leaklab.guests.calls import Subject, sent
from leaklab.guests.laboratory import Update, alike, rms
from leaklab.guests.moments import Ground, Labelled, Stage, tiny
from leaklab.guests.networks import stage_of
from leaklab.guests.pictures import encoded
from leaklab.guests.situation import Situation
from leaklab.metrics.guesses import match, reorder
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
        images: [N, C, H, W] in [0, 1], one update's after the other.
        labels: [N].
        samples: images in an update.
    """

    attacker: Attacker
    images: Tensor
    labels: Tensor
    samples: int = 1

    def scores(self, truth: Tensor) -> list[float]:
        """Return the PSNR in dB, at most 150: of each update the mean over its images."""
        return [fmean(one) for one in zip(*[iter(self.of_images(truth))] * self.samples, strict=True)]

    def errors(self, truth: Tensor) -> list[float]:
        """Return the mean square error that such a PSNR means, of each update."""
        return [float(10 ** (-score / 10)) for score in self.scores(truth)]

    def of_images(self, truth: Tensor) -> list[float]:
        """Return the PSNR of each image that stands where it belongs (``in_order``)."""
        errors = mean_squared_error(self.in_order(truth), truth)
        scores = -10 * errors.nan_to_num(nan=1.0).clamp(min=1e-15).log10()
        return [float(one) for one in scores]

    def in_order(self, truth: Tensor) -> Tensor:
        """Return the images [N, C, H, W], each update's in the order of the originals that they belong to."""
        if self.samples == 1:
            return self.images
        found, wanted = (one.view(-1, self.samples, *one.shape[1:]) for one in (self.images, truth))
        return reorder(found, match(found.nan_to_num(nan=0.0), wanted)).flatten(0, 1)


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

    SEARCH: ClassVar[str] = "annealed-map"
    """Of who knows no defense."""

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
        attacked = self.arena.file.updates * self.arena.samples
        order = stream(self.seed, "private images").permutation(len(every.labels))[:attacked]
        return Labelled(every.images[order], every.labels[order])

    def of_update(self, pool: Labelled, number: int) -> tuple[Tensor, Tensor]:
        """Return the images and labels of one update, of a pool that is shared out in its order."""
        own = slice(number * self.arena.samples, (number + 1) * self.arena.samples)
        return pool.images[own], pool.labels[own]

    @cached_property
    def generator(self) -> Generator:
        """The prior: a Gaussian of each class of the public images."""
        public, prior = self.arena.public, ClassGaussian(self.arena.file.components)
        return prior.fitted(public.images, public.labels, self.arena.classes).double()

    def moment(self, images: Tensor, labels: Tensor, client: int, draw: int = 0) -> Situation:
        """Return the moment of a client with the images of one update."""
        moment = self._on(self.stage, images, labels)
        return replace(moment, seed=self.seed, client=client, draw=draw)

    def _on(self, stage: Stage, images: Tensor, labels: Tensor) -> Situation:
        return stage.moment(images, labels, self.arena.file.steps, self.arena.file.rate)

    @cached_property
    def undefended(self) -> list[Situation]:
        """The clients that are attacked, without the guest."""
        batches = (self.of_update(self.private, k) for k in range(self.arena.file.updates))
        return [self._on(self.original, *batch) for batch in batches]

    @cached_property
    def plain(self) -> list[Update]:
        """What they send without the guest."""
        return [moment.plain() for moment in self.undefended]

    @cached_property
    def moments(self) -> list[Situation]:
        """The clients that are attacked."""
        return [self.moment(*self.of_update(self.private, k), k) for k in range(self.arena.file.updates)]

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
            order = stream(self.seed, "earlier", moment.client, before, moment.draw).permutation(len(pool.labels))
            place = order[: self.arena.samples]
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
        """Return the update of some public images so many times, and what is sent of them."""
        gradients, outs = [], []
        for number in range(self.arena.file.rehearsals):
            moment = self.moment(*self.of_update(self.arena.public, number), FIRST_CLIENT + number)
            for draw in range(draws):
                outs.append(out(replace(moment, draw=draw)))
                gradients.append(moment.plain())
        before, after = (
            tuple(torch.stack([one[name].flatten() for one in rows]) for name in self.sent_names)
            for rows in (gradients, outs)
        )
        return linear.Rehearsals(before, after, draws)

    def case(
        self,
        updates: Sequence[Mapping[str, Tensor]],
        attacker: Attacker,
        labels: Tensor,
        evaluations: int | None = None,
    ) -> Case:
        """Return what an attacker is given of updates: nothing of the images behind them but their labels."""
        given = self.original if attacker.kind in OF_PLAIN else self.stage
        update = {key: torch.stack([one[key] for one in updates]) for key in updates[0]}
        trials = tuple(range(len(updates)))
        observed = Observation(dict(given.weights), update, "gradient", "eval", given.model, trials)
        streams = partial(stream, self.seed, "guest", attacker.by)
        budget = Budget(evaluations or self.arena.file.evaluations, 1)
        facts = {"weights": True, "architecture": True, **self.facts(labels)}
        return Case(observed, Knowledge("guest", facts), budget, streams, attacker.distance, self.generator)

    def facts(self, labels: Tensor) -> dict[str, Any]:
        """Return what attackers know of updates, beside the network; labels [N] only where an update has several."""
        arena, own = self.arena, self.arena.file
        known = {"batch_size": own.batch, "input_shape": list(arena.shape), "num_classes": arena.classes,
                 "input_range": [0.0, 1.0], "local_steps": own.steps}  # fmt: skip
        if arena.samples > 1:
            known |= {"nominal_rate": own.rate, "samples": arena.samples,
                      "labels": labels.view(-1, arena.samples).tolist()}  # fmt: skip
        return known

    def read(
        self,
        attacker: Attacker,
        updates: Sequence[Mapping[str, Tensor]],
        evaluations: int | None = None,
        labels: Tensor | None = None,
    ) -> Reading:
        """Return what an attacker makes of updates: of the private images, unless it is told the labels of others."""
        given = self.private.labels if labels is None else labels
        found: Reconstruction = self.told(attacker.attack).reconstruct(self.case(updates, attacker, given, evaluations))
        return Reading(attacker, found.images.flatten(0, 1), found.labels.flatten(), self.arena.samples)

    def pictures(self, reading: Reading) -> dict[str, Any]:
        """Return the first image of each update as a picture, with its own PSNR."""
        first, truth = slice(None, None, reading.samples), self.private.images
        return {"images": encoded(reading.in_order(truth)[first]), "of_images": reading.of_images(truth)[first]}

    def labels_read(self, reading: Reading) -> int | None:
        """Return how many labels were right; None where they were granted, or none was read."""
        unread = self.arena.samples > 1 or bool((reading.labels == NO_LABEL).all())
        return None if unread else int((reading.labels == self.private.labels).sum())

    def told(self, attack: Attack) -> Attack:
        """Return an attack as it is where an update has several images: it is told their labels and their order."""
        if self.arena.samples == 1:
            return attack
        own = {"label_rule": "known", "samples": self.arena.samples if self.arena.file.steps > 1 else 0}
        told = {name: value for name, value in own.items() if hasattr(attack, name)}
        return replace(attack, **told)  # type: ignore[type-var]

    def guesses(self) -> Reading:
        """Return the better of two guesses of each image: the mean of all public images, or of those of its class."""
        public = self.arena.public
        labels = self.private.labels.tolist()
        of_class = torch.stack([public.images[public.labels == one].mean(0) for one in labels])
        nobody, every = Attacker("guess", "mean images", AnnealedMap()), public.images.mean(0).expand_as(of_class)
        both = [Reading(nobody, one, self.private.labels, self.arena.samples) for one in (every, of_class)]
        first, second = (torch.tensor(replace(one, samples=1).of_images(self.private.images)) for one in both)
        better = (first >= second).view(-1, 1, 1, 1)
        return replace(both[0], images=torch.where(better, every, of_class))

    def energy(self) -> float:
        """Return the root mean square of what the defense changes in an entry, on the network that is trained."""
        changes = [
            torch.cat([(out[name] - plain[name]).flatten() for name in out])
            for out, plain in zip(self.defended, (moment.plain() for moment in self.moments), strict=True)
        ]
        return rms(torch.cat(changes))

    def noisy(self, sigma: float) -> list[Update]:
        """Return the plain gradients with normal noise."""
        return [
            {name: g + sigma * stream(self.seed, "noise", place, name).normal(*g.shape) for name, g in one.items()}
            for place, one in enumerate(self.plain)
        ]
