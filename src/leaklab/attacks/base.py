"""What every attack is: observation and knowledge in, reconstruction out."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.starts import StartRecord
from leaklab.models.generators.base import Generator
from leaklab.models.hypernetwork import is_hypernetwork
from leaklab.models.normalisation import normalised
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

Streams = Callable[..., Stream]
"""Named streams of one attack run, e.g. ``streams("start", trial, number)``."""


@dataclass(frozen=True)
class Budget:
    """What an attack may spend per trial: outer iterations per start, and starts."""

    iterations: int
    restarts: int


@dataclass(frozen=True)
class Case:
    """All that an attack is given.

    Attributes:
        observation: T trials, ``kind`` gradient unless the transform leaves a delta.
        knowledge: what the threat model grants.
        budget: what may be spent.
        streams: the attack's random draws; those of a trial depend on its number only.
        distance: matching loss of a defense-aware transform in place of the attack's own; None keeps that.
        generator: frozen, makes the victim's images and classes; None unless the attack asks for one.
    """

    observation: Observation
    knowledge: Knowledge
    budget: Budget
    streams: Streams
    distance: Distance | None = None
    generator: Generator | None = None

    def shape(self, needed_by: str) -> tuple[int, ...]:
        """Return (B, C, H, W) of the samples behind one update.

        Raises:
            UserError: it is withheld.
        """
        batch = int(self.knowledge.require("batch_size", needed_by))
        return (batch, *self.knowledge.require("input_shape", needed_by))

    def classes(self, needed_by: str) -> int:
        """Return the number of classes.

        Raises:
            UserError: it is withheld.
        """
        return int(self.knowledge.require("num_classes", needed_by))

    def prior(self, attack: str) -> Generator:
        """Return the generator.

        Raises:
            UserError: there is none.
        """
        if self.generator is None:
            raise UserError(f"attack '{attack}' searches among a generator's images: give it one")
        return self.generator


def require_gradient(observation: Observation, attack: str) -> None:
    """Refuse a delta.

    Raises:
        UserError: the observation is none of kind gradient.
    """
    if observation.kind != "gradient":
        raise UserError(f"attack '{attack}' matches gradients: choose a transform that turns the delta into one")


def require_finite(observation: Observation, attack: str) -> None:
    """Refuse an update that is not finite.

    Raises:
        UserError: a number of it is not.
    """
    if not all(bool(value.isfinite().all()) for value in observation.update.values()):
        raise UserError(f"attack '{attack}': the observed gradients are not finite: capture them again at a lower rate")


@dataclass(frozen=True)
class Reconstruction:
    """What an attack found for T trials.

    Attributes:
        images: [T, B, C, H, W], the start with the smallest matching loss, as found: not clamped.
        labels: [T, B] int64.
        candidates: [T, R, B, C, H, W], the best point of every start.
        candidate_losses: [T, R]; inf where a start was not needed or never had a finite loss, NaN of an attack that
            evaluates none.
        starts: one record per start that was run; ``trial`` is the trial's number in the capture.
        scale: [T] float64, factor that the attacker found on the update: 1, unless ``run.attacked`` says what the
            transform estimated. An attack says nothing of it.
        latents: [T, B, d] of the images, where they come from a generator.
        certified: [T] bool, of an attack that proves what it reads: whether it proved the whole batch.
    """

    images: Tensor
    labels: Tensor
    candidates: Tensor
    candidate_losses: Tensor
    starts: tuple[StartRecord, ...]
    latents: Tensor | None = None
    certified: Tensor | None = None
    scale: Tensor = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.scale is None:
            object.__setattr__(self, "scale", torch.ones(len(self.labels), dtype=torch.float64))

    @classmethod
    def of_starts(
        cls,
        candidates: Tensor,
        losses: Tensor,
        labels: Tensor,
        starts: tuple[StartRecord, ...],
        *,
        latents: Tensor | None = None,
        certified: Tensor | None = None,
    ) -> "Reconstruction":
        """Return what an attack found, given what all of its starts did: of each trial the start of the smallest loss.

        Args:
            candidates: [T, R, B, C, H, W].
            losses: [T, R]; see ``candidate_losses``.
            labels: [T, B], of the chosen start.
            starts: their records, with the numbers of the trials in the capture.
            latents: [T, B, d], of the chosen start.
            certified: [T].
        """
        rows = torch.arange(len(candidates), device=candidates.device)
        images = candidates[rows, losses.argmin(1)]
        return cls(images, labels, candidates, losses, starts, latents, certified)

    def cpu(self) -> "Reconstruction":
        """Return the reconstruction on the CPU."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "starts"}
        return replace(self, **{name: value.cpu() for name, value in tensors.items() if value is not None})

    def evaluations(self) -> int:
        """Return how often the matching loss was evaluated."""
        return sum(start.evaluations for start in self.starts)


class Attack(Protocol):
    """An attack plug-in; a frozen dataclass whose fields are its settings.

    Attributes:
        requirements: what the attack asks for, read from its source while planning.
    """

    requirements: ClassVar[Requirements]

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct the private samples of every trial.

        Raises:
            UserError: a fact is needed and withheld, or the attack does not fit the observation.
        """
        ...


def victim(observation: Observation, knowledge: Knowledge, needed_by: str) -> nn.Sequential:
    """Return the observed network with its broadcast weights on their device, in the observed mode.

    Its parameters are those whose update was observed, and none asks for a gradient. Weights that the client kept to
    itself are constants (buffers) of the network: no matching loss can speak of them.

    Raises:
        UserError: facts are withheld, or the weights do not belong to the model.
    """
    network = blank(observation, knowledge, needed_by)
    _refuse_other_weights(observation, [name for name, _ in network.named_parameters()])
    like = next(iter(observation.weights.values()))
    network = network.to(device=like.device, dtype=like.dtype)
    network.load_state_dict({**observation.weights, **observation.buffers}, strict=True)
    for name in observation.weights:
        if name not in observation.update:
            _fix(network, name)
    if knowledge.knows("normalisation"):
        # attacks search images on the [0, 1] scale, whatever the network was trained on
        network = normalised(network, **knowledge.require("normalisation", needed_by)).to(device=like.device)
    dropping = [layer for layer in network.modules() if isinstance(layer, nn.Dropout) and layer.p > 0]
    if observation.mode == "train" and dropping:
        raise UserError("the client's dropout masks are unknown to the attacker: capture a model without dropout")
    return network.train(observation.mode == "train").requires_grad_(requires_grad=False)


def blank(observation: Observation, knowledge: Knowledge, needed_by: str) -> nn.Sequential:
    """Return a network of the observed architecture, all weights zero, float32 on the CPU.

    Raises:
        UserError: facts are withheld.
    """
    model = plugins.load("models", observation.model["name"], observation.model["settings"])
    shape = tuple(knowledge.require("input_shape", needed_by))
    network: nn.Sequential = model.build(shape, knowledge.require("num_classes", needed_by))
    return network


def _refuse_other_weights(observation: Observation, parameters: list[str]) -> None:
    """Refuse weights that are not all those of the network, and say which transform brings them about.

    Raises:
        UserError: see above.
    """
    seen = list(observation.weights or observation.own)
    if seen == parameters:
        if observation.own:
            raise UserError("the server sent each client weights of its own: attack one trial after another")
        return
    if any(map(is_hypernetwork, seen)):
        raise UserError(
            "clients send a hypernetwork's gradient, not the network's: choose transform linear-heads, two-level or "
            "drawn-embedding"
        )
    kept = [name for name in parameters if name not in seen]
    if kept and seen == [name for name in parameters if name in seen]:
        raise UserError(
            f"the server never had the client's '{kept[0]}': choose transform private-classifier, which puts something "
            "in its place"
        )
    raise UserError(f"the observed weights are not those of model '{observation.model['name']}': capture again")


def _fix(network: nn.Module, name: str) -> None:
    """Turn a parameter into a constant of its layer."""
    path, _, own = name.rpartition(".")
    layer = network.get_submodule(path)
    value = getattr(layer, own).detach()
    delattr(layer, own)
    layer.register_buffer(own, value)
