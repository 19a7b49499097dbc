"""The law of runs of entries that share their fate."""

import pytest
import torch

from leaklab.attacks.learnt.linear import Rehearsals
from leaklab.attacks.learnt.runs import learnt as of_runs
from leaklab.records.streams import stream

ENTRIES, RUN, SIGMA = 64 * 40, 640, 0.2


def rehearsed(change):
    gradients = [stream(image, "gradient").normal(ENTRIES) for image in range(6) for _ in range(4)]
    sent = [change(own, stream(row, "draw")) for row, own in enumerate(gradients)]
    return Rehearsals((torch.stack(gradients),), (torch.stack(sent),), 4)


def in_runs(shortened):
    def change(own, draws):
        chosen = (draws.uniform(ENTRIES // RUN) < 0.4).repeat_interleave(RUN)
        return torch.where(chosen, SIGMA * draws.normal(ENTRIES) + (0 if shortened else own), own)

    return change


@pytest.mark.parametrize("shortened", [True, False])
def test_runs_are_found_with_their_noise(shortened):
    law = of_runs(rehearsed(in_runs(shortened)))
    assert (law.shortened, law.steps) == (shortened, 1)
    assert law.sigma == pytest.approx(SIGMA, rel=0.03)
    assert law.noised == pytest.approx(0.4, abs=0.15)


@pytest.mark.parametrize(
    "change",
    [
        lambda own, draws: own,
        lambda own, draws: own + SIGMA * draws.normal(ENTRIES),
        lambda own, draws: torch.where(draws.uniform(ENTRIES) < 0.5, own, 0.0),
    ],
    ids=["nothing", "noise everywhere", "entries alone"],
)
def test_what_has_no_runs_has_no_such_law(change):
    assert of_runs(rehearsed(change)) is None
