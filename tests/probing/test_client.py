"""A described client's round, against the same round written out."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.probing.client import Client
from leaklab.records.errors import UserError


def _case() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), torch.randn(6, 5), torch.arange(6) % 3


def test_a_round_is_the_written_out_steps_and_leaves_the_model_alone() -> None:
    model, inputs, targets = _case()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    exchange = Client(model, rate=0.3, steps=4, batch_size=4).round(inputs, targets)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    for rows in ([0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5], [0, 1, 2, 3]):
        grads = torch.autograd.grad(F.cross_entropy(model(inputs[rows]), targets[rows]), list(model.parameters()))
        with torch.no_grad():
            for parameter, grad in zip(model.parameters(), grads, strict=True):
                parameter -= 0.3 * grad
    for name, value in model.state_dict().items():
        torch.testing.assert_close(exchange.sent[name], value - before[name])
        torch.testing.assert_close(exchange.direction(name), (before[name] - value).double())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": lambda output, targets: output}, "no scalar"),
        ({"loss": lambda output, targets: output.sum() / 0}, "the loss is"),
        ({"sends": "gradient", "steps": 2}, "that of one step"),
    ],
)
def test_a_client_that_cannot_train_is_one_line(changes: dict, said: str) -> None:
    model, inputs, targets = _case()
    with pytest.raises(UserError, match=said):
        Client(model, **changes).round(inputs, targets)
    with pytest.raises(UserError, match="0 samples"):
        Client(model).round(inputs[:0], targets[:0])
    model.requires_grad_(False)
    with pytest.raises(UserError, match="trains nothing"):
        Client(model).round(inputs, targets)
