"""Optimizers that are written out, against torch's own, and slopes where their steps are nearly signs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leaklab.probing.client import Client
from leaklab.probing.searches.optimizers import RULES, Memory, steps_of
from leaklab.records.streams import stream

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
RMSPROP, ADAGRAD = torch.optim.RMSprop, torch.optim.Adagrad
SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    (SGD, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    (SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    (ADAM, {}),
    (ADAM, {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}),
    (ADAM, {"amsgrad": True, "maximize": True}),
    (ADAM, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (ADAMW, {}),
    (ADAMW, {"weight_decay": 0.3, "amsgrad": True}),
    (RMSPROP, {"weight_decay": 0.1}),
    (RMSPROP, {"centered": True, "momentum": 0.9, "alpha": 0.7}),
    (ADAGRAD, {"lr_decay": 0.1, "initial_accumulator_value": 0.3, "weight_decay": 0.1}),
    (ADAGRAD, {"maximize": True}),
]


def halved(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def written_out(client: Client, value: Tensor, gradients: list[Tensor], soft: float) -> Tensor:
    """Return a parameter after the steps of a client, each along its own gradient."""
    plan, memory = steps_of(client, [nn.Parameter(value.clone())]), Memory()
    assert plan is not None
    for ((rule, settings),), gradient in zip(plan, gradients, strict=True):
        value = rule(settings, gradient, value, memory, soft)
    return value


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
@pytest.mark.parametrize("schedule", [None, halved])
def test_three_steps_are_those_of_torch(kind: Any, settings: dict, schedule: Callable | None) -> None:
    draws = stream(0, "steps")
    start, gradients = draws.normal(4, 3), [draws.normal(4, 3) for _ in range(3)]
    gradients[0][0] = 0.0  # an entry that has not moved yet
    client = Client(
        nn.Linear(1, 1), optimizer=lambda these: kind(these, lr=0.1, **settings), schedule=schedule, steps=3
    )
    parameter = nn.Parameter(start.clone())
    optimizer = kind([parameter], lr=0.1, **settings)
    changes = None if schedule is None else schedule(optimizer)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        if changes is not None:
            changes.step()
    torch.testing.assert_close(written_out(client, start, gradients, 0.0), parameter.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", list(RULES))
def test_a_softened_step_has_the_slope_of_its_differences(kind: Any) -> None:
    draws = stream(1, "slopes")
    start, gradients = draws.normal(5), [draws.normal(5) for _ in range(3)]
    gradients[0][0] = 0.0
    client = Client(nn.Linear(1, 1), optimizer=lambda these: kind(these, lr=0.1), steps=3)

    def after(first: Tensor) -> Tensor:
        return written_out(client, start, [first, *gradients[1:]], 0.1)

    assert torch.autograd.gradcheck(after, gradients[0].requires_grad_())


def test_an_optimizer_that_is_not_written_out_has_no_steps() -> None:
    class Own(torch.optim.Adam):
        """One that may do anything."""

    for kind in (torch.optim.NAdam, Own):
        client = Client(nn.Linear(1, 1), optimizer=lambda these, kind=kind: kind(these, lr=0.1))
        assert steps_of(client, [nn.Parameter(torch.ones(1))]) is None
