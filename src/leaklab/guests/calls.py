"""A guest's defense in the child: imported, called at one client's moment, and held against what it must return."""

import copy
import importlib.util
import inspect
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.defenses.base import Alone, ClientContext, Defense, loaded, overrides
from leaklab.guests.files import FUNCTION, Guest, blamed, digest, find
from leaklab.guests.returned import checked, checked_penalty, checked_samples
from leaklab.guests.situation import Gradients, Situation, moved
from leaklab.records.draws import key_of
from leaklab.records.errors import UserError
from leaklab.records.plugins import PACKAGE_FOLDER

OWN_HOOKS = ("samples", "network", "penalty")
"""Hooks of guests alone, looked up by name: ``samples(images, labels, context)``, ``network(network)`` and
``penalty(network)``, which is asked after the pass that it adds a term to."""


class FunctionDefense(Defense):
    """A plain function of gradients, or of gradients and the client's context, as the hook ``gradient``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "arguments", len(inspect.signature(function).parameters))

    def gradient(self, gradients: Gradients, context: ClientContext) -> Gradients:
        """Return what the function makes of one step's gradient."""
        given = (gradients, context)[: min(self.arguments, 2)]  # type: ignore[attr-defined]
        return self.function(*given)  # type: ignore[attr-defined, no-any-return]


@dataclass
class Subject:
    """A guest's defense that can be called again and again.

    Attributes:
        guest: what stands in the file.
        module: the file, imported.
        everywhere_fresh: each ``new`` imports the file again, for one that keeps memory in its module.
    """

    guest: Guest
    module: ModuleType
    everywhere_fresh: bool = False
    loads: int = field(default=0, repr=False)

    @classmethod
    def load(cls, file: Path, sha256: str = "", offered: str = "") -> "Subject":
        """Import a guest's file.

        Args:
            file: where it stands.
            sha256: that it must have; empty for any.
            offered: see ``files.find``.

        Raises:
            UserError: it fails, or it is no longer the one of which the digest was taken.
        """
        guest = find(file, offered)
        if sha256 and guest.sha256 != sha256:
            raise UserError(f"{file} was changed while it was judged: begin again")
        return cls(guest, imported(file, 0))

    def unchanged(self) -> None:
        """Refuse a file that is no longer what was imported.

        Raises:
            UserError: see above.
        """
        if digest(self.guest.file) != self.guest.sha256:
            raise UserError(f"{self.guest.file} was changed while it was judged: begin again")

    def fresh(self) -> Defense:
        """Return the defense as in a process that has not called it yet."""
        self.loads += 1
        return made(self.guest, imported(self.guest.file, self.loads))

    def new(self) -> Defense:
        """Return a new object of the defense."""
        return self.fresh() if self.everywhere_fresh else made(self.guest, self.module)


def made(guest: Guest, module: ModuleType) -> Defense:
    """Return a new object of the defense that a module offers.

    Raises:
        UserError: it cannot be made, or is no defense.
    """
    offered = getattr(module, guest.offered)
    with blamed(guest.file, "it is made"):
        if guest.form == "function":
            return FunctionDefense(offered)
        one = offered() if isinstance(offered, type) else copy.deepcopy(offered)
    if isinstance(one, Defense):
        return one
    if callable(one):
        return FunctionDefense(one)
    raise UserError(
        f"{guest.file}, line {guest.line}: {guest.offered} is a {type(one).__name__}: make it a "
        f"class with base leaklab.Defense, or a function {FUNCTION}(gradients, context)"
    )


def imported(file: Path, number: int) -> ModuleType:
    """Import a file anew, and with it what stands beside it.

    Raises:
        UserError: it fails; where, and with what.
    """
    folder = f"{file.parent.absolute()}{os.sep}"
    for name in [name for name, module in sys.modules.items() if _is_beside(module, folder)]:
        del sys.modules[name]
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(f"leaklab_guest_{number}_{file.stem}", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with blamed(file, "it was imported"):
        spec.loader.exec_module(module)
    return module


def _is_beside(module: ModuleType, folder: str) -> bool:
    """Whether a module is the guest's own: in its folder, and neither of the house nor installed nor the program."""
    name = getattr(module, "__file__", None) or "/"
    if not name.startswith(folder):  # most of thousands, asked for each object of a guest
        return False
    others = (PACKAGE_FOLDER, Path(sys.prefix), Path(sys.base_prefix))
    return not any(Path(name).is_relative_to(one) for one in others) and module.__name__ != "__main__"


def sent(
    subject: Subject,
    defense: Defense,
    moment: Situation,
    when: str = "it defends a gradient",
    *,
    differentiable: bool = False,
) -> dict[str, Tensor]:
    """Return the update that a client sends, over minus the sum of its nominal rates: without defense, the gradient.

    The hooks are called as the engine calls them (``federated/local.py``), from global generators that are seeded by
    client, round, step and draw, so that a guest without streams of its own can be repeated too. Parts that the
    defense hides are not in it. Where a guest has hooks of ``OWN_HOOKS``, the gradient is computed anew by them, unless
    the client is fed with one. Where asked for, what the guest computes can be differentiated for the gradient.

    Raises:
        UserError: a hook fails, or returns what cannot be sent.
    """
    file = subject.guest.file
    with blamed(file, when):
        context = ClientContext(moment.rate, moment.seed, moment.client, moment.round, moment.draw)
        count = defense.local_steps(len(moment.gradients), context)
        total = {name: torch.zeros_like(value) for name, value in moment.weights.items()}
        for step in range(int(count)):
            there = replace(moment, weights=moved(moment.weights, total)) if step else moment
            batch = _trained_on(file, defense, there, context, step)
            given = moment.gradients[min(step, len(moment.gradients) - 1)]
            if moment.own and (step or any(has(defense, hook) for hook in OWN_HOOKS)):
                given = _computed(file, defense, there, batch, step)
            at = context.at(Alone(step, cloned(there.weights), cloned(batch), moment.build))
            seed_all(moment, step)
            rate = float(defense.local_rate(at))
            own = _shortened(given, defense.sample_bound(at))
            if overrides(defense, "gradient"):
                own = checked(file, defense.gradient(cloned(own), at), own, "gradient", differentiable)
            total = {name: value - rate * own[name] for name, value in total.items()}
        if overrides(defense, "update"):
            seed_all(moment, -1)
            at = context.at(Alone(int(count), cloned(moment.weights), {}, moment.build))
            total = checked(file, defense.update(cloned(total), at), total, "update", differentiable)
        hidden = defense.hidden(moment.build()) if overrides(defense, "hidden") else frozenset()
    nominal = moment.rate * len(moment.gradients)
    return {name: value / -nominal for name, value in total.items() if name not in hidden}


def has(defense: Defense, hook: str) -> bool:
    """Whether a defense has one of ``OWN_HOOKS``; a setting of that name is none."""
    return callable(getattr(type(defense), hook, None))


def samples_of(subject: Subject, moment: Situation) -> Gradients:
    """Return the batch that a new client trains on in its first step.

    Raises:
        UserError: the guest fails, or makes no batch of it.
    """
    context = ClientContext(moment.rate, moment.seed, moment.client, moment.round, moment.draw)
    with blamed(subject.guest.file, "it changes the samples"):
        return _trained_on(subject.guest.file, subject.new(), moment, context, 0)


def _trained_on(file: Path, defense: Defense, moment: Situation, context: ClientContext, step: int) -> Gradients:
    """Return the batch of one step: that of the moment, or what the guest makes of it.

    Raises:
        UserError: what it makes is no batch.
    """
    batch = moment.batch_of(step)
    if not has(defense, "samples"):
        return batch
    at = context.at(Alone(step, cloned(moment.weights), cloned(batch), moment.build))
    seed_all(moment, step)
    given = cloned(batch)
    found = defense.samples(given["images"], given["labels"], at)  # type: ignore[attr-defined]
    return checked_samples(file, found, batch)


def _computed(file: Path, defense: Defense, moment: Situation, batch: Gradients, step: int) -> Gradients:
    """Return the gradient of the loss of a batch on the network that is trained, with the guest's own term.

    A network of the guest's is in training state and draws, as dropout does, from torch's generator.
    """
    network = loaded(moment.build, moment.weights).train(has(defense, "network"))
    seed_all(moment, -2 - step)
    loss = F.cross_entropy(network(batch["images"]), batch["labels"])
    if has(defense, "penalty"):
        loss = loss + checked_penalty(file, defense.penalty(network))  # type: ignore[attr-defined]
    parameters = list(network.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return dict(zip(moment.weights, found, strict=True))


def _shortened(gradients: Gradients, bound: float | None) -> Gradients:
    """Return the gradient of the one sample of a batch under a clip per sample."""
    if bound is None:
        return gradients
    norm = torch.stack([value.double().pow(2).sum() for value in gradients.values()]).sum().sqrt()
    factor = min(1.0, float(bound) / max(float(norm), 1e-300))
    return {name: factor * value for name, value in gradients.items()}


def cloned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies, so that what works in place spoils nothing."""
    return {name: value.clone() for name, value in tensors.items()}


def seed_all(moment: Situation, step: int) -> None:
    """Seed the global generators of torch, numpy and ``random`` for one call."""
    key = key_of(moment.seed, "guest", moment.client, "round", moment.round, "step", step, "draw", moment.draw)
    seed = int.from_bytes(key[:4], "little")
    torch.manual_seed(seed)  # only in a child: a guest may draw from it, and could not be repeated
    np.random.seed(seed)  # noqa: NPY002 - a guest may draw from it
    random.seed(seed)
