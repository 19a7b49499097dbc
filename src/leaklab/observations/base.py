"""Observation and Knowledge: all that an attacker has; the private samples are in neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from leaklab.observations.requirements import refusal
from leaklab.records.errors import UserError

Kind = Literal["gradient", "delta"]
Mode = Literal["train", "eval"]


@dataclass(frozen=True)
class Knowledge:
    """The facts that a threat model grants (``threat_models.FACTS``), and their values."""

    threat_model: str
    facts: Mapping[str, Any]

    def require(self, fact: str, needed_by: str = "this attack") -> Any:
        """Return the value of ``fact``.

        Raises:
            UserError: the threat model withholds it.
        """
        if fact not in self.facts:
            raise refusal(needed_by, fact, self.threat_model)
        return self.facts[fact]

    def knows(self, fact: str) -> bool:
        """Tell whether ``fact`` is granted."""
        return fact in self.facts


@dataclass(frozen=True)
class Observation:
    """What the server sees of a batch of trials (independent one-round observations of one model).

    Attributes:
        weights: parameter name -> broadcast weights, in the model's order; shared by all trials.
        update: parameter name -> [T, ...] update of each trial, same names and order.
        kind: ``gradient`` (rescaled by what the server assumes) or ``delta`` (weights after minus before).
        mode: whether the client's layers were in their train or eval state.
        model: ``{"name": ..., "settings": {...}}`` of the plug-in in ``models/``.
        trials: number of each trial within the capture; a part of an observation keeps the numbers of the whole.
    """

    weights: Mapping[str, Tensor]
    update: Mapping[str, Tensor]
    kind: Kind
    mode: Mode
    model: Mapping[str, Any]
    trials: tuple[int, ...]

    def __post_init__(self) -> None:
        if list(self.weights) != list(self.update):
            raise UserError("the observation's update and weights name different parameters: capture it again")

    def select(self, rows: Sequence[int]) -> "Observation":
        """Return the observation of the given rows (positions, not trial numbers)."""
        index = list(rows)
        return replace(
            self,
            update={name: value[index] for name, value in self.update.items()},
            trials=tuple(self.trials[row] for row in index),
        )

    def to(self, device: str) -> "Observation":
        """Return the observation on a device."""
        moved = [{name: value.to(device) for name, value in part.items()} for part in (self.weights, self.update)]
        return replace(self, weights=moved[0], update=moved[1])

    def scaled(self, factor: Tensor | float) -> "Observation":
        """Return the observation with the update of each trial times ``factor`` (scalar or [T])."""
        return replace(self, update={name: _times(value, factor) for name, value in self.update.items()})

    def as_gradient(self, knowledge: Knowledge, needed_by: str = "this attack") -> "Observation":
        """Return the gradient that the server infers: a delta is divided by -(nominal_rate * local_steps).

        Raises:
            UserError: a delta, and the threat model withholds the rate or the number of steps.
        """
        if self.kind == "gradient":
            return self
        assumed = knowledge.require("nominal_rate", needed_by) * knowledge.require("local_steps", needed_by)
        return replace(self.scaled(-1 / assumed), kind="gradient")

    def as_direction(self) -> "Observation":
        """Return the gradient up to an unknown positive factor; needs no knowledge of the rate."""
        return self if self.kind == "gradient" else replace(self.scaled(-1.0), kind="gradient")


def _times(value: Tensor, factor: Tensor | float) -> Tensor:
    if isinstance(factor, Tensor) and factor.dim() == 1:
        factor = factor.to(value.dtype).view(-1, *[1] * (value.dim() - 1))
    return value * factor
