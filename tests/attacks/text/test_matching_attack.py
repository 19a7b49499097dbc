"""The attack as a whole: it finds planted sentences, a factor defeats TAG and no one else, and it repeats itself."""

import pytest
import torch

from leaklab.attacks.text.base import TextMatching
from leaklab.attacks.text.inversion import DescentSettings, best_of_starts
from leaklab.attacks.text.read_out import nearest_tokens
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

LABELS = [1, 0]
QUICK = {"iterations": 150, "rate": 0.2}


def streams(*name):
    return stream(11, *name)


@pytest.fixture(scope="module")
def attack(network, sentence, observe, frame_of):
    """Attack the sentences 0 and 1 (6 and 8 tokens); return what was found and the truth."""
    sentences = [sentence(0, 6), sentence(1, 8)]

    def run(factor=1.0, rows=(0, 1), known=True, **settings):
        chosen, labels = [sentences[row] for row in rows], [LABELS[row] for row in rows]
        found = TextMatching(**QUICK | settings).reconstruct(
            network,
            observe(chosen, labels, [factor] * len(rows)),
            [frame_of(ids) for ids in chosen],
            2,
            streams,
            rows,
            torch.tensor(labels) if known else None,
        )
        return found, chosen

    return run


def share(found, truth):
    pairs = [(a[1:-1] == b[1:-1]).double().mean() for a, b in zip(found.tokens, truth, strict=True)]
    return float(torch.stack(pairs).mean())


@pytest.mark.parametrize(
    ("distance", "factor"), [("tag", 1.0), ("tag-squared", 1.0), ("profiled-tag", 2.0), ("mean-cosine", 2.0)]
)
def test_a_planted_sentence_is_found_with_a_factor_by_who_does_not_look_at_it(attack, distance, factor):
    found, truth = attack(factor, rows=(0,), distance=distance)
    assert share(found, truth) >= 0.75
    assert found.tokens[0][[0, -1]].tolist() == [2, 3]


def test_a_factor_defeats_tag(attack):
    assert share(*attack(2.0)) < 0.5


def test_within_the_bag_only_its_tokens_are_read(attack):
    for bag in (False, True):
        found, truth = attack(2.0, rows=(0,), iterations=20, bag=bag)
        assert (set(found.tokens[0].tolist()) <= set(truth[0].tolist())) == bag


def test_the_label_is_found_where_it_is_searched(attack):
    found, truth = attack(rows=(0,), known=False, iterations=250)
    assert found.labels.tolist() == LABELS[:1]
    assert share(found, truth) >= 0.75


def test_runs_repeat_and_trials_do_not_depend_on_each_other(attack):
    before = torch.get_rng_state()
    together, again = (attack(iterations=20, restarts=2)[0] for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert together.starts == again.starts
    assert [(record.trial, record.start) for record in together.starts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    alone, _ = attack(iterations=20, restarts=2, rows=(1,))
    assert alone.starts == together.starts[2:]
    assert torch.equal(alone.tokens[0], together.tokens[1])


def bowl(points, rows):
    return (points**2).sum(1), 2 * points


def test_the_best_start_is_chosen_by_its_loss():
    starts = [torch.full((2,), size, dtype=torch.float64) for size in (9.0, 1.0, 5.0)]
    point, records = best_of_starts(bowl, lambda _, number: starts[number], 0, DescentSettings(10, restarts=3))
    assert [record.start for record in records] == [0, 1, 2]
    losses = [record.matching_loss for record in records]
    assert losses.index(min(losses)) == 1
    assert float((point**2).sum()) == min(losses)


def test_steps_are_those_of_adamw_with_a_falling_rate():
    settings = DescentSettings(iterations=3, rate=0.1, decay=0.5)
    point, _ = best_of_starts(bowl, lambda *_: torch.tensor([1.0], dtype=torch.float64), 0, settings)
    x, mean, square = 1.0, 0.0, 0.0
    for step in range(2):  # the third step's point is never evaluated
        rate, derivative = 0.1 * (1 - step / 3), 2 * x
        mean, square = 0.9 * mean + 0.1 * derivative, 0.999 * square + 0.001 * derivative**2
        direction = mean / (1 - 0.9 ** (step + 1)) / ((square / (1 - 0.999 ** (step + 1))) ** 0.5 + 1e-8)
        x = x * (1 - rate * 0.5) - rate * direction
    assert float(point[0]) == pytest.approx(x, rel=1e-12)


def test_a_start_that_diverges_is_counted_and_the_best_point_kept():
    def cliff(points, rows):
        value = points.sum(1)
        return torch.where(value < 0.9, torch.nan, value), torch.ones_like(points)

    settings = DescentSettings(iterations=9, rate=0.05)
    point, (record,) = best_of_starts(cliff, lambda *_: torch.tensor([1.0], dtype=torch.float64), 0, settings)
    assert record.diverged
    assert record.stopped == "diverged"
    assert 0.9 <= float(point[0]) < 1
    assert record.matching_loss == float(point[0])


def test_the_read_out_is_the_largest_cosine():
    table = torch.tensor([[1.0, 0.0], [0.0, 9.0], [3.0, 3.0]])
    points = torch.tensor([[50.0, 1.0], [1.0, 1.2], [0.1, 0.4]])
    assert nearest_tokens(points, table).tolist() == [0, 2, 1]
    assert nearest_tokens(points, table, allowed={1, 2}).tolist() == [2, 2, 1]
    assert nearest_tokens(points, table, banned=(1, 2)).tolist() == [0, 0, 0]
    with pytest.raises(UserError, match="no token may be chosen"):
        nearest_tokens(points, table, allowed={1}, banned={1})


def test_bad_settings_are_refused(attack):
    for settings in ({"iterations": 0}, {"restarts": 0}, {"rate": 0.0}, {"decay": -1.0}):
        with pytest.raises(UserError, match="at least one iteration and one start"):
            attack(**settings)
    with pytest.raises(UserError, match="choose from tag, tag-squared, profiled-tag, mean-cosine"):
        attack(distance="tga")
