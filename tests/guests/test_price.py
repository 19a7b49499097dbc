"""What a guest's defense costs, where the answer is known."""

import pytest

from leaklab.guests import price
from leaklab.guests.calls import Subject
from leaklab.guests.exposure import Exposure

HEAD = "import torch\n\ndef defend(gradients, context):\n    return {name: %s for name, value in gradients.items()}\n"
TOP = "torch.where(value.abs() > value.abs().flatten().kthvalue(int(0.9 * value.numel())).values, value, 0.0)"


@pytest.fixture
def exposed(tmp_path):
    def made(body):
        file = tmp_path / "mine.py"
        file.write_text(HEAD % body)
        return Exposure(Subject.load(file), "mlp")

    return made


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(price, "PAIRS", 2)
    monkeypatch.setattr(price, "ROUNDS", 15)


@pytest.mark.parametrize("body", ["value", "value / 50", "-value"])
def test_what_the_server_can_undo_costs_nothing(exposed, short, body):
    found = price.priced(exposed(body))
    assert (found.lost, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-9)
    assert found.noise is None
    assert found.bytes == found.bytes_without == 4 * (784 * 64 + 64 + 64 * 10 + 10)
    assert found.without > 60


def test_noise_costs_what_noise_of_its_deviation_costs(exposed, monkeypatch):
    monkeypatch.setattr(price, "PAIRS", 4)
    monkeypatch.setattr(price, "ROUNDS", 30)
    sigma = 0.7
    found = price.priced(exposed(f"value + {sigma} * context.stream(name).normal(*value.shape)"))
    assert found.low > 0
    assert found.noise == pytest.approx(sigma, rel=0.5)


def test_zeros_are_not_sent(exposed, short):
    found = price.priced(exposed(TOP))
    assert found.bytes == pytest.approx(0.2 * found.bytes_without, rel=0.02)


def test_no_noise_is_said_to_cost_as_much_where_all_that_was_tried_costs_less(exposed, monkeypatch):
    monkeypatch.setattr(price, "PAIRS", 2)
    monkeypatch.setattr(price, "ROUNDS", 5)
    assert price._noise_of(99.0, 60.0, exposed("value")) is None
