"""Limits of exact reading: an easier case ends later, every limit is where its own test fails, and bad settings."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.spans.reading import Reading, read
from leaklab.models.text.decoders import Gpt2, gradients_of
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.text_limits import WHAT, TextLimits

SMALL = TextLimits(width=64, vocabulary=200, sentences=1, length=8, batches=2, halvings=5, most_steps=3)


def limits_of(check: TextLimits) -> dict[tuple[str, str], float]:
    """Return the numbers by limit and metric."""
    return {(one.row["limit"], one.metric): one.value for one in check.run(3, None, lambda loop, *_: loop)}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], float]:
    """What the small check finds."""
    return limits_of(SMALL)


def test_a_proof_ends_before_the_order_and_the_order_before_the_words(found: dict[tuple[str, str], float]) -> None:
    for limit in ("noise", "multiplier", "dropped", "steps", "tokens"):
        ends = [found[limit, what] for what in WHAT]
        assert ends == sorted(ends), limit
        assert all(found[limit, f"{w}_low"] <= found[limit, w] <= found[limit, f"{w}_high"] for w in WHAT)
    assert 0 < found["noise", "certificate"] < found["noise", "sentences"]
    assert found["dropped", "certificate"] == 0  # one entry that is not there is enough


def test_one_step_and_tokens_below_the_width_are_read(found: dict[tuple[str, str], float]) -> None:
    assert found["steps", "sentences"] >= 1
    assert 0.75 <= found["tokens", "certificate"] < 1  # seven inputs a sentence: at most nine of them fit 64


def test_the_multiplier_is_the_noise_of_an_entry_over_the_share_of_one_sentence(
    found: dict[tuple[str, str], float],
) -> None:
    entries = sum(value.numel() for value in Gpt2(width=64, positions=8, loss="next-token").build(200, 2).parameters())
    four = limits_of(replace(SMALL, sentences=4, batches=1, halvings=3))
    for one, sentences in ((found, 1), (four, 4)):
        assert one["multiplier", "words"] == pytest.approx(one["noise", "words"] * sentences / entries**0.5)


def test_noise_beside_its_limit_is_read_and_is_not() -> None:
    """The slow plain way, at twice the resolution of the bisection below and above what it found."""
    limit = limits_of(replace(SMALL, batches=1))["noise", "certificate"]
    network = Gpt2(width=64, positions=8, loss="next-token").initialised(200, 2, 3)
    ids = stream(3, "text-limits", 0, "tokens").integers(1, 200, 1, 8)
    update = gradients_of(network, ids, None)
    length = torch.cat([value.flatten() for value in update.values()]).double().norm()
    entries = sum(value.numel() for value in update.values())

    def proven(level: float) -> bool:
        draws, sigma = stream(3, "text-limits", 0, "noise"), level * length / entries**0.5
        noisy = {name: value + (sigma * draws.normal(*value.shape)).to(value) for name, value in update.items()}
        try:
            return read(network, noisy).proven
        except UserError:
            return False

    step = (10.0 / 1e-9) ** (1 / 2**SMALL.halvings)
    assert proven(limit)
    assert not proven(limit * step)


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading(((1, 2), (3, 4)), frozenset({1, 2, 3, 4}), True, "rank"), {"certificate", "sentences", "words"}),
        (Reading(((1, 2), (3, 4)), frozenset({1, 2, 3, 4}), False, "rank"), {"sentences", "words"}),
        (Reading(((2, 1), (3, 4)), frozenset({1, 2, 3, 4}), True, "rank"), {"words"}),
        (Reading(((1, 2), (3, 4)), frozenset(range(1, 9)), False, "rank"), {"sentences", "words"}),
        (Reading((), frozenset({1, 2, 3, 4}), False, "ranking"), {"words"}),
        (Reading(((1, 2),), frozenset({1, 2, 3, 4}), True, "rank"), set()),
        (Reading((), frozenset(range(1, 200)), False, "ranking"), set()),  # everything found says nothing
    ],
)
def test_what_is_counted_as_read(reading: Reading, expected: set[str]) -> None:
    ids = torch.tensor([[1, 2], [3, 4]])
    assert {what for what, holds in WHAT.items() if holds(reading, ids)} == expected


@pytest.mark.parametrize("settings", [{"length": 1}, {"sentences": 8}])
def test_settings_that_cannot_be_read_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(UserError, match="take sentences of at least 2, fewer than the width together"):
        limits_of(replace(SMALL, **settings))  # type: ignore[arg-type]
