"""A simulated round against the client's own, for kinds of models, optimizers and rounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.probing.client import Client
from leaklab.probing.searches.simulation import Simulation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Linear(4, 6)
        self.head, self.again = nn.Linear(6, 3), nn.Linear(6, 3)
        self.again.weight = self.head.weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.decode(torch.tanh(self.encode(x)))
        return self.head(x), self.again(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x.view(len(x), 2, 3))[0][:, -1])


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x.view(len(x), 3, 2)).flatten(1))


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3))


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.0), nn.Linear(5, 3))


def frozen() -> nn.Sequential:
    model = plain()
    model[0].requires_grad_(False)
    return model


def of_two(output: Any, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output[0], targets) + 0.5 * F.cross_entropy(output[1], targets)


def decayed(these: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(these, 0.2, momentum=0.9, weight_decay=0.1, nesterov=True)


def adaptive(these: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(these, 0.01, weight_decay=0.1)


def halved(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


CASES: list[tuple[Callable[[], nn.Module], dict[str, Any]]] = [
    (plain, {"sends": "gradient", "clip": 0.05}),
    (plain, {"steps": 3, "batch_size": 2, "accumulate": 2, "optimizer": decayed, "schedule": halved}),
    (plain, {"sends": "weights", "steps": 2, "clip": 0.05}),
    (plain, {"steps": 3, "batch_size": 2, "optimizer": adaptive, "schedule": halved}),
    (normed, {"steps": 2, "optimizer": lambda these: torch.optim.RMSprop(these, 0.01)}),
    (normed, {"steps": 2}),
    (normed, {"mode": "eval"}),
    (frozen, {}),
    (Tied, {"loss": of_two, "steps": 2}),
    (Recurrent, {"steps": 2}),
    (Attentive, {}),
]


@pytest.mark.parametrize(("build", "changes"), CASES)
def test_a_simulated_round_is_the_client_s_and_can_be_differentiated(build: Callable, changes: dict) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        client = Client(build().double(), **changes)
    inputs, targets = stream(0, "inputs").normal(4, 6), torch.arange(4) % 3
    exchange = client.round(inputs, targets)
    simulation = Simulation(client, exchange)
    inputs.requires_grad_()
    simulated, hard = simulation(inputs, targets), simulation(inputs, targets, soft=0.0)
    for mine, sent in zip(hard, simulation.observed(exchange), strict=True):
        torch.testing.assert_close(mine.detach(), sent, rtol=1e-6, atol=1e-9)
    (slope,) = torch.autograd.grad(sum(one.square().sum() for one in simulated), inputs)
    assert slope.abs().max() > 0
    again = simulation(inputs, targets)  # nothing is remembered
    assert all(torch.equal(one, other) for one, other in zip(simulated, again, strict=True))


def test_of_an_optimizer_that_is_not_written_out_the_signs_of_one_step_are_compared() -> None:
    client = Client(plain(), optimizer=lambda these: torch.optim.Adamax(these, 0.1))
    inputs, targets = stream(0, "inputs").normal(2, 6), torch.arange(2)
    exchange = client.round(inputs.float(), targets)
    simulation = Simulation(client, exchange)
    assert simulation.scale_free
    for soft, sent in zip(simulation(inputs, targets), simulation.observed(exchange), strict=True):
        assert float((soft * sent).sum() / soft.norm() / sent.norm()) > 0.9
    of_gradient = replace(client, sends="gradient")
    exact = Simulation(of_gradient, of_gradient.round(inputs.float(), targets))
    assert not exact.scale_free  # no optimizer has touched it
    gradient = exact.gradient(inputs, targets)
    assert all(torch.equal(a, b) for a, b in zip(exact(inputs, targets), gradient, strict=True))
    with pytest.raises(UserError, match="probe one step"):
        Simulation(replace(client, steps=2), exchange)


def test_without_anything_to_match_is_one_line() -> None:
    client = Client(plain())
    exchange = client.round(torch.zeros(1, 6), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(UserError, match="nothing to match"):
        Simulation(client, replace(exchange, sent={}))
    with pytest.raises(UserError, match="do not fit"):
        Simulation(client, replace(exchange, before={"0.weight": torch.zeros(2, 2)}))
