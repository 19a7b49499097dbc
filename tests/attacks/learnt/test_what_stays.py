"""What stays of mixed tensors, and a defense that is run in the loss."""

import pytest
import torch

from leaklab.attacks.learnt import emulation, invariants
from leaklab.attacks.learnt.linear import Rehearsals
from leaklab.attacks.matching.distances import Likelihood
from leaklab.records.streams import stream

SHAPES = [torch.Size((6, 5, 2)), torch.Size((7,))]
IMAGES, DRAWS = 4, 3


def orthogonal(rows, draws):
    return torch.linalg.qr(draws.normal(rows, rows)).Q


MIXED = {
    "entries": lambda v, draws: v,
    "sizes": lambda v, draws: v * (2 * (draws.uniform(*v.shape) < 0.5) - 1),
    "row products": lambda v, draws: (orthogonal(len(v), draws) @ v.flatten(1)).view_as(v),
    "column products": lambda v, draws: (v.flatten(1) @ orthogonal(v[0].numel(), draws)).view_as(v),
    "sorted": lambda v, draws: v.flatten()[draws.uniform(v.numel()).argsort()].view_as(v),
    "length": lambda v, draws: (orthogonal(v.numel(), draws) @ v.flatten()).view_as(v),
    "nothing": lambda v, draws: v + draws.normal(*v.shape),
}


def rehearsed(change, draws=DRAWS):
    """Rehearsals in which the vector stays as it is and the array of three dimensions is changed."""
    gradients, sent = [], []
    for image in range(IMAGES):
        own = [stream(image, "gradient", place).normal(*shape) for place, shape in enumerate(SHAPES)]
        for draw in range(draws):
            gradients.append(own)
            sent.append([change(own[0], stream(image, "draw", draw)), own[1]])
    columns = (tuple(torch.stack([v.flatten() for v in one]) for one in zip(*rows, strict=True)) for rows in
               (gradients, sent))  # fmt: skip
    return Rehearsals(*columns, draws=draws)


@pytest.mark.parametrize("kind", MIXED)
@pytest.mark.parametrize("factor", [False, True])
def test_the_most_telling_is_taken_that_stays(kind, factor):
    def change(value, draws):
        return MIXED[kind](value, draws) * (0.5 + draws.number() if factor else 1)

    law = invariants.learnt(rehearsed(change), SHAPES)
    expected = "nothing" if factor and kind == "length" else kind
    assert law.tensors[0] == invariants.Invariant(expected, factor and expected != "nothing")
    assert law.tensors[1] == invariants.Invariant("entries")


def test_lengths_alone_are_no_law():
    rehearsals = rehearsed(MIXED["length"])
    assert invariants.learnt(Rehearsals(rehearsals.gradients[:1], rehearsals.sent[:1], DRAWS), SHAPES[:1]) is None


@pytest.mark.parametrize("kind", [kind for kind in MIXED if kind != "nothing"])
def test_the_difference_is_the_plain_one_and_vanishes_at_the_truth(kind):
    draws = stream(3, "mixed")
    truth, other = (draws.normal(2, 6, 10) for _ in range(2))
    sent = torch.stack([MIXED[kind](one, draws) for one in truth])
    plain = {
        "entries": lambda v: v,
        "sizes": torch.abs,
        "row products": lambda v: v.mT @ v,
        "column products": lambda v: v @ v.mT,
        "sorted": lambda v: v.abs().flatten(1).sort(1).values,
        "length": lambda v: v.flatten(1).norm(dim=1, keepdim=True),
    }[kind]
    expected = [float((a - b).pow(2).sum() / b.pow(2).sum()) for a, b in zip(plain(other), plain(sent), strict=True)]
    assert invariants.DIFFERENCES[kind](other, sent).tolist() == pytest.approx(expected)
    assert invariants.DIFFERENCES[kind](truth, sent).tolist() == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize("kind", ["entries", "sizes", "row products", "column products", "sorted"])
def test_it_falls_towards_the_truth_and_has_its_slope(kind):
    law = invariants.InvariantLaw((invariants.Invariant(kind),))
    assert isinstance(law, Likelihood)
    draws = stream(4, "mixed")
    truth, away = draws.normal(1, 6, 5, 2), draws.normal(1, 6, 5, 2)
    sent = torch.stack([MIXED[kind](truth[0], draws)])
    distance = law.widened(0.1, {})
    values = [float(distance([truth + step * away], [sent])[0]) for step in (0, 1e-3, 1e-2)]
    assert values[0] == pytest.approx(0, abs=1e-6)
    assert values[0] < values[1] < values[2]
    at = truth + 0.3 * away
    _, (slope,), factor = distance([at], [sent])
    up, down = (float(distance([at + step * away], [sent])[0]) for step in (1e-5, -1e-5))
    assert float(factor * (slope * away).sum()) == pytest.approx((up - down) / 2e-5, rel=1e-4)


class TestEmulation:
    turn = orthogonal(60, stream(1, "key"))

    def turned(self, gradient):
        first, second = gradient
        return [(self.turn @ first.flatten()).view_as(first), 3 * second]

    def law(self, apply):
        rows = rehearsed(lambda value, draws: value)
        sent = [apply([a.view(SHAPES[0]), b]) for a, b in zip(*rows.gradients, strict=True)]
        columns = tuple(torch.stack([v.flatten() for v in one]) for one in zip(*sent, strict=True))
        return emulation.learnt(Rehearsals(rows.gradients, columns, DRAWS), apply, SHAPES)

    def test_what_is_sent_of_the_truth_explains_it(self):
        law = self.law(self.turned)
        truth = [stream(7, place).normal(1, *shape) for place, shape in enumerate(SHAPES)]
        sent = [one[None] for one in self.turned([one[0] for one in truth])]
        distance = law.widened(0.1, {})
        assert float(distance(truth, sent)[0]) == pytest.approx(0, abs=1e-20)
        away = [truth[0] + 0.1, truth[1]]
        # half the squared error over that of the stage, whatever turns it
        expected = float(((self.turn @ torch.full((60,), 0.1).double()) ** 2).sum() / (0.02 * sent[0].pow(2).mean()))
        assert float(distance(away, sent)[0]) == pytest.approx(expected)

    @pytest.mark.parametrize(
        "apply",
        [
            lambda gradient: [one.sign() for one in gradient],
            lambda gradient: [(100 * one).round() / 100 for one in gradient],
            lambda gradient: [one.detach() * 2 for one in gradient],
            lambda gradient: [one + torch.randn_like(one) for one in gradient],
        ],
        ids=["sign", "rounding", "detached", "random"],
    )
    def test_without_a_right_slope_or_with_draws_there_is_none(self, apply):
        torch.manual_seed(0)
        assert self.law(apply) is None

    def test_a_clip_has_a_right_slope(self):
        assert self.law(lambda gradient: [one / max(1.0, float(one.detach().norm())) for one in gradient]) is None
        assert self.law(lambda gradient: [one / one.norm().clamp(min=1.0) for one in gradient]) is not None
