"""Spec of what an attacker learns by rehearsing: he defends public images, and looks at what comes out.

He learns a law of the defense where his transform takes one, and, where his attack can split its search with a learnt
prior, whether that reads more of such images than the search without it.
"""

from typing import ClassVar, Self

from pydantic import model_validator

from leaklab.records.bounds import Count, Natural, Seed
from leaklab.records.record import Component, Plugin, Record
from leaklab.specs.base import Code, Spec
from leaklab.specs.capture import CaptureSpec, ImageChoice
from leaklab.specs.generator import GENERATORS, GeneratorSpec

ADAPTIVE = "attacks/adaptive"
DRAWS = 10_000
"""Added to the seed of clients whose images are public, who draw nothing that a private one drew."""
OWN = ("state", "server", "sent", "schedule", "augmentation", "algorithm")
"""Fields of a capture that a rehearsal leaves out: the weights are those that were sent, and the rest is of deals."""


class RehearsalSpec(Record):
    """What the job of a law is told: which public images it defends, and how; nothing of the private ones.

    Attributes:
        capture: clients with public images. Their weights are those of the observation; their draws are their own.
        images: updates that laws are learnt from; those behind them choose among the laws.
        iterations: of each stage of a search by which a law is tried.
        gate: updates at the end on which ``attack`` is tried with and without its splits; 0 for none.
        attack: that attack, with its ``transform`` and its ``evaluations`` per stage.
        taught: images of each class that the prior was made of, the first ones: others are rehearsed. 0 for all.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"gate", "attack", "transform", "evaluations", "taught"})

    capture: CaptureSpec
    images: Natural
    iterations: Count
    seed: Seed
    gate: Natural = 0
    attack: Component | None = None
    transform: Component | None = None
    evaluations: Natural = 0
    taught: Natural = 0


class LawSpec(Spec):
    """What is learnt from public images that the attacker defends with the clients' own program.

    Attributes:
        capture: whose defense, network, steps and batch are rehearsed, at the weights that were sent.
        generator: prior with which laws are tried; the images are of the same part of the same data set.
        images: public updates that laws are learnt from; 0 for an attacker who was told the defense.
        draws: how often each of them is defended.
        choosing: further public updates on which the laws are tried: the one that reads these best is kept.
        iterations: of each stage of such a trial.
        seed: of the images and the draws.
        gate: public updates on which the attack is tried with and without its splits, to choose between them.
        attack: that is tried there, with its ``transform`` and its ``evaluations`` per stage: those of the attack that
            the rehearsal is for, and left out of its block.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"gate", "attack", "transform", "evaluations"})
    stage: ClassVar[str] = "law"
    rule: ClassVar[str] = "learn_law"
    called: ClassVar[str] = "{capture.dataset}-{capture.model.name}-{capture.defense.name}"
    withheld: ClassVar[str] = "capture"

    capture: CaptureSpec
    generator: GeneratorSpec
    images: Natural = 24
    draws: Count = 4
    choosing: Count = 2
    iterations: Count = 30
    seed: Seed = 0
    gate: Natural = 0
    attack: Component | None = None
    transform: Component | None = None
    evaluations: Natural = 0

    @model_validator(mode="after")
    def _rehearses(self) -> Self:
        if not self.images and not self.gate:
            raise ValueError("nothing is rehearsed: set law.images or law.gate, or leave law out")
        return self

    def told(self) -> RehearsalSpec:
        """Return the rehearsal: clients like those of the capture, with public images and draws of their own."""
        choosing = self.choosing if self.images else 0
        count = (self.images + choosing + self.gate) * self.capture.batch_size
        images = ImageChoice(split=self.generator.split, count=count, seed=self.seed, min_contrast=0.0)
        fields = {name: CaptureSpec.model_fields[name].default for name in OWN}
        own = {"images": images, "draws": self.draws, "dataset": self.generator.dataset, "seed": self.seed + DRAWS,
               "client_weight": 1.0}  # fmt: skip
        rehearsed = self.capture.model_copy(update=fields | own)
        gate = {name: getattr(self, name) for name in ("gate", "attack", "transform", "evaluations")}
        taught = int(self.generator.model.settings.get("per_class") or 0)
        return RehearsalSpec(
            capture=rehearsed, images=self.images, iterations=self.iterations, seed=self.seed, taught=taught, **gate
        )

    def needs(self) -> tuple[Spec, ...]:
        """Return the capture, whose weights are rehearsed, and the prior."""
        return self.capture, self.generator

    def plugins(self) -> tuple[Plugin, ...]:
        """Return what the clients do, and the prior."""
        return *self.told().capture.plugins(), self.generator.model.in_room(GENERATORS)

    def executed_plugins(self) -> Code:
        """Return those, and no defense, beside which what is sent is held."""
        tried = [(room, part.name) for room, part in (("attacks", self.attack), (ADAPTIVE, self.transform)) if part]
        return *super().executed_plugins(), ("defenses", "none"), ("attacks", "annealed-likelihood"), *tried

    @property
    def own_dataset(self) -> str:
        """The data set of the public images."""
        return self.generator.dataset
