"""What a guest's defense costs, where the answer is known."""

import pytest

from leaklab.guests import price
from leaklab.guests.calls import Subject

HEAD = "import torch\n\ndef defend(gradients, context):\n    return {name: %s for name, value in gradients.items()}\n"
TOP = "torch.where(value.abs() > value.abs().flatten().kthvalue(int(0.9 * value.numel())).values, value, 0.0)"


@pytest.fixture
def subject(tmp_path):
    def made(body):
        file = tmp_path / "mine.py"
        file.write_text(HEAD % body)
        return Subject.load(file)

    return made


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(price, "PAIRS", 2)
    monkeypatch.setattr(price, "ROUNDS", 15)


@pytest.mark.parametrize("body", ["value", "value / 50", "-value"])
def test_what_the_server_can_undo_costs_nothing(subject, short, body):
    found = price.priced(subject(body), 0)
    assert (found.lost, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-9)
    assert found.noise is None
    assert found.bytes == found.bytes_without == 4 * (784 * 64 + 64 + 64 * 10 + 10)
    assert found.without > 60


def test_noise_costs_what_noise_of_its_deviation_costs(subject, monkeypatch):
    monkeypatch.setattr(price, "PAIRS", 4)
    monkeypatch.setattr(price, "ROUNDS", 30)
    sigma = 0.7
    found = price.priced(subject(f"value + {sigma} * context.stream(name).normal(*value.shape)"), 0)
    assert found.low > 0
    assert found.noise == pytest.approx(sigma, rel=0.5)


def test_zeros_are_not_sent(subject, short):
    found = price.priced(subject(TOP), 0)
    assert found.bytes == pytest.approx(0.2 * found.bytes_without, rel=0.02)


def test_no_noise_is_said_to_cost_as_much_where_all_that_was_tried_costs_less(monkeypatch):
    monkeypatch.setattr(price, "PAIRS", 2)
    monkeypatch.setattr(price, "ROUNDS", 5)
    assert price._noise_of(lost=99.0, plain=60.0, seed=0) is None
