"""Experiments on a guest's defense: it is called again with one thing changed, and what it sends is compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from leaklab.defenses.base import Defense
from leaklab.guests.calls import Subject, sent
from leaklab.guests.moments import Ground, Stage, tiny
from leaklab.guests.networks import stage_of
from leaklab.guests.situation import Situation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

Update = dict[str, Tensor]
ALIKE = 1e-6
"""Relative difference that a detour by float32 explains."""
SIZES = (1e-6, 1e-5, 1.0, 1e5, 1e6)
"""What one gradient is multiplied by."""


def relative(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """Return the largest difference of two updates, relative to the root mean square of the tensor it is in.

    Tensors that are zero in both do not count; one that is zero in ``other`` alone is as far away as can be.
    """
    worst = 0.0
    for name, value in one.items():
        difference = float((value - other[name]).abs().max())
        if difference:
            worst = max(worst, difference / max(rms(other[name]), 1e-300))
    return worst


def alike(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether two updates have the same parts and differ by roundings at most."""
    return one.keys() == other.keys() and relative(one, other) <= ALIKE


def rms(value: Tensor) -> float:
    """Return the root mean square of a tensor."""
    return float(value.double().pow(2).mean().sqrt()) if value.numel() else 0.0


def norm(update: Mapping[str, Tensor]) -> float:
    """Return the length of an update."""
    return float(torch.stack([value.double().pow(2).sum() for value in update.values()]).sum().sqrt())


def times(update: Mapping[str, Tensor], factor: float) -> Update:
    """Return an update times a number."""
    return {name: factor * value for name, value in update.items()}


def minus(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Update:
    """Return the difference of two updates."""
    return {name: value - other[name] for name, value in one.items()}


def plus(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Update:
    """Return the sum of two updates."""
    return {name: value + other[name] for name, value in one.items()}


@dataclass
class Laboratory:
    """A guest's defense on one network.

    What it is fed is mostly no gradient of an image but dense noise of a gradient's size in each tensor: a gradient
    has dead entries and the rank of its batch, and what a defense does to these would be taken for what it does.

    Attributes:
        subject: the guest.
        network: one of the arena's.
        arena: the images and networks.
    """

    subject: Subject
    network: str
    arena: Ground = field(default_factory=tiny)

    @cached_property
    def stage(self) -> Stage:
        """The network that is trained, with its weights."""
        return stage_of(self.subject, self.arena, self.network)

    @cached_property
    def original(self) -> Stage:
        """The same without the guest, who may change it."""
        return self.arena.stage(self.network)

    @cached_property
    def moment(self) -> Situation:
        """The client whose gradients are changed; it is fed with them."""
        public = self.arena.public
        return replace(self.stage.moment(public.images[:1], public.labels[:1]), own=False)

    @cached_property
    def real(self) -> Update:
        """The gradient of its image."""
        return dict(self.moment.gradients[0])

    def dense(self, number: int) -> Update:
        """Return noise of the size of the gradient in each tensor, of the whole where nothing reaches a tensor."""
        draws = stream(number, "dense gradient")
        whole = rms(torch.cat([value.flatten() for value in self.real.values()]))
        return {name: (rms(value) or whole) * draws.normal(*value.shape) for name, value in self.real.items()}

    @cached_property
    def a(self) -> Update:
        """The first such noise."""
        return self.dense(0)

    @cached_property
    def b(self) -> Update:
        """The second one."""
        return self.dense(1)

    @cached_property
    def zero(self) -> Update:
        """A gradient of zero."""
        return times(self.a, 0.0)

    def out(self, gradient: Mapping[str, Tensor], **changes: Any) -> Update:
        """Return what a new client sends of a gradient, with these changes of the moment."""
        moment = replace(self.moment, gradients=[gradient], **changes)
        return sent(self.subject, self.subject.new(), moment)

    def in_steps(self, gradients: list[Update]) -> Update:
        """Return what a new client sends of several local steps, over their number."""
        return sent(self.subject, self.subject.new(), replace(self.moment, gradients=gradients))

    def tried(self, gradient: Mapping[str, Tensor], **changes: Any) -> Update | None:
        """Return the same; None where the guest fails or what it sends is not finite."""
        try:
            found = self.out(gradient, **changes)
        except UserError:
            return None
        return found if all(bool(value.isfinite().all()) for value in found.values()) else None

    def rounds(self, gradients: list[Update]) -> tuple[list[Update], list[Update]]:
        """Return what one client sends in successive rounds, and what it sends in each as if it were its first."""
        once: Defense = self.subject.fresh()
        moments = [replace(self.moment, gradients=[one], round=number) for number, one in enumerate(gradients)]
        together = [sent(self.subject, once, moment) for moment in moments]
        return together, [sent(self.subject, self.subject.fresh(), moment) for moment in moments]

    def changed_by(self) -> dict[str, bool]:
        """Return for each thing that a client knows whether what it sends of one gradient changes with it."""
        public, before = self.arena.public, self.out(self.a)
        image, label = public.images[:1], public.labels[:1]
        weights = stage_of(self.subject, self.arena, self.network, seed=1).weights
        other = next(place for place in range(1, len(public.labels)) if public.labels[place] == label[0])
        batches = {
            "image": {"images": public.images[other : other + 1], "labels": label},
            "label": {"images": image, "labels": (label + 1) % self.arena.classes},
        }
        changes: dict[str, Callable[[], Update]] = {
            **{name: lambda batch=batch: self.out(self.a, batch=batch) for name, batch in batches.items()},  # type: ignore[misc]
            "weights": lambda: self.out(self.a, weights=weights),
            "rate": lambda: self.out(self.a, rate=0.5),
            "client": lambda: self.out(self.a, client=1),
            "round": lambda: self.out(self.a, round=1),
            "draw": lambda: self.out(self.a, draw=1),
        }
        return {name: not alike(change(), before) for name, change in changes.items()}


class Sent:
    """A laboratory in which only what is sent is compared, and a draw is whatever makes updates differ.

    Attributes:
        varied: ``draw``, or ``client`` or ``round`` where these alone make another update; empty where nothing does.
    """

    def __init__(self, laboratory: Laboratory, hidden: list[str], varied: str) -> None:
        self.laboratory, self.hidden, self.varied = laboratory, hidden, varied
        self.a, self.b, self.zero, self.real = map(
            self._sent, (laboratory.a, laboratory.b, laboratory.zero, laboratory.real)
        )

    def _sent(self, update: Update) -> Update:
        return {name: value for name, value in update.items() if name not in self.hidden}

    def whole(self, update: Update) -> Update:
        """Return a gradient with zero in the parts that are hidden."""
        return {name: update.get(name, torch.zeros_like(value)) for name, value in self.laboratory.a.items()}

    def out(self, update: Update, draw: int = 0) -> Update:
        """Return what is sent of a gradient in a draw."""
        return self.laboratory.out(self.whole(update), **{self.varied or "draw": draw})

    def tried(self, update: Update, draw: int = 0) -> Update | None:
        """Return the same; None where the guest fails or what it sends is not finite."""
        return self.laboratory.tried(self.whole(update), **{self.varied or "draw": draw})

    def is_nothing(self) -> bool:
        """Whether gradients come back as they are, in one step and in several."""
        fed = [times(one, size) for one in (self.a, self.b) for size in SIZES] + [self.real]
        whole = [self.whole(one) for one in (self.a, self.b, self.a)]
        mean = times(plus(plus(self.a, self.b), self.a), 1 / 3)
        return all(alike(self.out(one), one) for one in fed) and alike(self.laboratory.in_steps(whole), mean)
