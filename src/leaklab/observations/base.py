"""Observation and Knowledge: all that an attacker has; the private samples are in neither."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from leaklab.observations.requirements import refusal
from leaklab.observations.threat_models import Fact, Silence
from leaklab.records.errors import UserError

Kind = Literal["gradient", "delta"]
Mode = Literal["train", "eval"]


@dataclass(frozen=True)
class Knowledge:
    """The facts that a threat model grants (``threat_models.FACTS``), and their values."""

    threat_model: str
    facts: Mapping[str, Any]

    def require(self, fact: Fact, needed_by: str = "this attack") -> Any:
        """Return the value of ``fact``.

        Raises:
            UserError: the threat model withholds it.
        """
        if fact not in self.facts:
            raise refusal(needed_by, fact, self.threat_model)
        return self.facts[fact]

    def assumed_rates(self, needed_by: str = "this attack") -> list[float]:
        """Return the rate that the server prescribed for each local step.

        Raises:
            UserError: the rate or the number of steps is withheld.
        """
        rate = self.require("nominal_rate", needed_by)
        return [rate * factor for factor in self._step_factors(needed_by)]

    def assumed_rate(self, needed_by: str = "this attack") -> float:
        """Return the sum of ``assumed_rates``, by which a delta is divided."""
        total: float = self.require("nominal_rate", needed_by) * sum(self._step_factors(needed_by))
        return total

    @property
    def rounds(self) -> int:
        """Of how many updates the observation is the mean; one unless the facts say more."""
        return int(self.facts.get("rounds", 1))

    def _step_factors(self, needed_by: str) -> list[float]:
        steps = int(self.require("local_steps", needed_by))
        return list(self.facts.get("step_factors", [1.0] * steps))

    def knows(self, fact: Fact) -> bool:
        """Tell whether ``fact`` is granted."""
        return fact in self.facts


@dataclass(frozen=True)
class Observation:
    """What the server sees of a batch of trials (independent one-round observations of one model).

    Attributes:
        weights: parameter name -> broadcast weights, in the model's order; shared by all trials. Under an algorithm
            with messages of its own (a hypernetwork's) these are the tensors of the message.
        update: parameter name -> [T, ...] update of each trial, in the same order; parameters that the client keeps
            to itself are missing. Their broadcast weights are known: the first round starts from them.
        kind: ``gradient`` (rescaled by what the server assumes) or ``delta`` (weights after minus before).
        mode: whether the client's layers were in their train or eval state.
        model: ``{"name": ..., "settings": {...}}`` of the plug-in in ``models/``.
        trials: number of each trial within the capture; a part of an observation keeps the numbers of the whole.
        buffers: running statistics by name, as broadcast.
        own: in place of ``weights``, where the server sent each client others: by name, [T, ...].
        silent: number of a trial whose update says nothing -> why.
    """

    weights: Mapping[str, Tensor]
    update: Mapping[str, Tensor]
    kind: Kind
    mode: Mode
    model: Mapping[str, Any]
    trials: tuple[int, ...]
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    own: Mapping[str, Tensor] = field(default_factory=dict)
    silent: Mapping[int, Silence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {**self.weights, **self.own}
        if not self.update or [name for name in named if name in self.update] != list(self.update):
            raise UserError("the observation's update and weights name different parameters: capture it again")
        if self.weights and self.own:
            raise UserError("the server sent weights to all clients or others to each, not both: capture it again")

    @property
    def like(self) -> Tensor:
        """A tensor of the observation's dtype and device."""
        return next(iter(self.update.values()))

    @property
    def speaking(self) -> list[int]:
        """The rows (positions) of the trials whose update says something."""
        return [row for row, trial in enumerate(self.trials) if trial not in self.silent]

    def sent(self, name: str) -> Tensor:
        """Return the weights that were sent under ``name``, [T, ...] where each client got others, else [1, ...]."""
        return self.own[name] if self.own else self.weights[name][None]

    def one_by_one(self) -> list["Observation"]:
        """Return the observation of each trial, with the weights that its client got."""
        alone = [self.select([row]) for row in range(len(self.trials))]
        return [
            replace(one, weights={name: value[0] for name, value in one.own.items()}, own={}) if one.own else one
            for one in alone
        ]

    def select(self, rows: Sequence[int]) -> "Observation":
        """Return the observation of the given rows (positions, not trial numbers)."""
        index = list(rows)
        trials = tuple(self.trials[row] for row in index)
        return replace(
            self,
            update={name: value[index] for name, value in self.update.items()},
            own={name: value[index] for name, value in self.own.items()},
            trials=trials,
            silent={trial: why for trial, why in self.silent.items() if trial in trials},
        )

    def to(self, device: str) -> "Observation":
        """Return the observation on a device."""
        return self._each(lambda value: value.to(device))

    def scaled(self, factor: Tensor | float) -> "Observation":
        """Return the observation with the update of each trial times ``factor`` (scalar or [T])."""
        return replace(self, update={name: _times(value, factor) for name, value in self.update.items()})

    def in_dtype(self, dtype: torch.dtype) -> "Observation":
        """Return the observation with weights, update and statistics in ``dtype``; whole numbers stay."""
        return self._each(lambda value: value.to(dtype) if value.is_floating_point() else value)

    def _each(self, function: Callable[[Tensor], Tensor]) -> "Observation":
        """Return the observation with ``function`` of each of its tensors."""
        weights, update, buffers, own = (
            {name: function(value) for name, value in part.items()}
            for part in (self.weights, self.update, self.buffers, self.own)
        )
        return replace(self, weights=weights, update=update, buffers=buffers, own=own)

    def as_gradient(self, knowledge: Knowledge, needed_by: str = "this attack") -> "Observation":
        """Return the gradient that the server infers: a delta is divided by minus the sum of the prescribed rates.

        Raises:
            UserError: a delta, and the threat model withholds the rate or the number of steps.
        """
        if self.kind == "gradient":
            return self
        return replace(self.scaled(-1 / knowledge.assumed_rate(needed_by)), kind="gradient")

    def as_direction(self) -> "Observation":
        """Return the gradient up to an unknown positive factor; needs no knowledge of the rate."""
        return self if self.kind == "gradient" else replace(self.scaled(-1.0), kind="gradient")


def _times(value: Tensor, factor: Tensor | float) -> Tensor:
    if isinstance(factor, Tensor) and factor.dim() == 1:
        factor = factor.to(value.dtype).view(-1, *[1] * (value.dim() - 1))
    return value * factor
