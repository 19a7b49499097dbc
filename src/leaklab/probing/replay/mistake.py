"""A named mistake in the description of a client, and what is run with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.probing.client import Client
from leaklab.probing.owned import with_state

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Setting:
    """What is run: a client and its samples [N, ...] and targets [N, ...] in the order of use."""

    client: Client
    inputs: Tensor
    targets: Tensor

    def of(self, **changes: Any) -> "Setting":
        """Return the same with a changed client."""
        return replace(self, client=replace(self.client, **changes))


@dataclass(frozen=True)
class Mistake:
    """One way in which a description may be wrong.

    Attributes:
        name: e.g. ``label smoothing``; mistakes of one name differ in details that ``says`` tells.
        says: a phrase with a place for each number, e.g. ``label smoothing of {:.4g}``.
        change: from a setting and numbers to the setting that was really run; None for a change of what is sent.
        sends: from the directions that would have been sent, flat, and numbers to those that were; None for none.
        starts: values of the numbers to begin a fit with; one empty tuple where there is nothing to fit.
        low: smallest value of a number.
        high: largest value of a number.
        groups: of mistakes that share one, a pair holds one.
        anywhere: whether ``sends`` works on each entry alone, and so on each tensor.
        paired: whether it is tried together with others.
        lengthens: whether all that it does to one step of gradient descent is another length.
    """

    name: str
    says: str
    change: Callable[[Setting, Numbers], Setting] | None = None
    sends: Callable[[Tensor, Numbers], Tensor] | None = None
    starts: tuple[Numbers, ...] = ((),)
    low: float = 0.0
    high: float = inf
    groups: frozenset[str] = frozenset()
    anywhere: bool = True
    paired: bool = True
    lengthens: bool = False

    def phrase(self, numbers: Numbers) -> str:
        """Return what happened with these numbers, in words."""
        return self.says.format(*numbers)


Made = tuple[Mistake, Numbers]
"""A mistake with its numbers."""
Hypothesis = tuple[Made, ...]
"""Mistakes that were made together; none for the description as it is."""


def simple(name: str, says: str, change: Callable[[Setting], Setting], *groups: str, paired: bool = True) -> Mistake:
    """Return a mistake without numbers."""
    return Mistake(name, says, lambda setting, _: change(setting), groups=frozenset(groups), paired=paired)


def numbered(
    name: str,
    says: str,
    change: Callable[..., Setting],
    starts: tuple[float, ...],
    *groups: str,
    high: float = inf,
    lengthens: bool = False,
) -> Mistake:
    """Return a mistake with one number; ``change`` takes the setting and it."""
    begin = tuple((start,) for start in starts)
    return Mistake(
        name,
        says,
        lambda setting, numbers: change(setting, *numbers),
        starts=begin,
        high=high,
        groups=frozenset(groups),
        lengthens=lengthens,
    )


def changed(setting: Setting, hypothesis: Hypothesis) -> Setting:
    """Return what is run under a hypothesis."""
    for mistake, numbers in hypothesis:
        if mistake.change is not None:
            setting = mistake.change(setting, numbers)
    return setting


def holding(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """Return a copy of a model with another state; what the state lacks stays, and other names are left out."""
    own = model.state_dict()
    return with_state(model, {name: value for name, value in state.items() if name in own})


def optimizer_of(client: Client) -> torch.optim.Optimizer:
    """Return the optimizer that a client makes, of a parameter that nobody trains."""
    parameter = nn.Parameter(torch.zeros(1))
    return torch.optim.SGD([parameter], lr=client.rate) if client.optimizer is None else client.optimizer([parameter])


def tuned(setting: Setting, **settings: Any) -> Setting:
    """Return the setting with other values in every group of its optimizer; a rate is that of the first group."""
    client = setting.client
    if client.optimizer is None and set(settings) == {"lr"}:
        return setting.of(rate=settings["lr"])
    make = client.optimizer or (lambda these: torch.optim.SGD(these, lr=client.rate))
    nominal = float(optimizer_of(client).param_groups[0]["lr"])

    def optimize(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = make(parameters)
        for group in optimizer.param_groups:
            ratio = float(group["lr"]) / nominal if nominal else 1.0
            group.update(settings | ({"lr": settings["lr"] * ratio} if "lr" in settings else {}))
        return optimizer

    return setting.of(optimizer=optimize)


def hooked(setting: Setting, hook: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Setting:
    """Return the setting with ``hook(gradient, parameter, its value at the beginning)`` in place of each gradient."""
    client = setting.client
    make = client.optimizer or (lambda these: torch.optim.SGD(these, lr=client.rate))

    def optimize(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        for parameter in parameters:
            start = parameter.detach().clone()
            parameter.register_hook(  # type: ignore[no-untyped-call]
                lambda grad, own=parameter, start=start: hook(grad, own.detach(), start)
            )
        return make(parameters)

    return setting.of(optimizer=optimize)
