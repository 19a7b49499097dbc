"""Clients with much of one group of classes: exact counts, no training sample twice, tests with the same skew."""

import numpy as np
import pytest

from leaklab.data.deal import counts_like, deal
from leaklab.data.partitions.groups import CHARACTERS, OVERLAPPING, ClassGroups
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.specs.training import PartitionSpec

FASHION = np.repeat(np.arange(10), 6000)[draws(0, "labels").permutation(60_000)]
TESTS = np.repeat(np.arange(10), 1000)
LETTERS = [40] * 10 + [9] * 26 + [6] * 26


def content(tests=0, labels=FASHION, **settings):
    choice = {"name": "class-groups", "tests": tests, **settings}
    spec = PartitionSpec.model_validate({"dataset": "fashion", "partition": choice})
    return deal(spec, labels, test_labels=TESTS)


def counts(labels, held, classes=10):
    return np.array([np.bincount(labels[own], minlength=classes) for own in held])


@pytest.mark.parametrize("clients", [20, 100])
def test_a_fifth_is_spread_and_the_rest_is_of_the_clients_group(clients):
    held = content(clients=clients)["clients"]
    everyone = np.concatenate(held)
    assert len(set(everyone.tolist())) == len(everyone) == 600 * clients
    found = counts(FASHION, held)
    assert (found.sum(1) == 600).all()
    for client, own in enumerate(found):
        group = OVERLAPPING[client % 5]
        others = np.delete(own, list(group))
        assert (others == 12).all()
        assert own[list(group)].sum() == 36 + 480
        # of twenty clients nobody lacks samples; of a hundred, two groups share what there is of a class
        alone = next(label for label in group if sum(label in one for one in OVERLAPPING) == 1)
        assert abs(own[alone] - 12 - (160 if clients == 20 else 240)) <= 1
        assert all(abs(own[label] - 12 - (160 if clients == 20 else 120)) <= 1 for label in group if label != alone)


def test_a_hundred_clients_use_every_sample():
    assert sorted(np.concatenate(content(clients=100)["clients"]).tolist()) == list(range(60_000))


def test_tests_have_the_same_skew_and_may_be_shared_while_training_samples_never_are():
    both = content(clients=100, tests=300)
    trained, tested = counts(FASHION, both["clients"]), counts(TESTS, both["tests"])
    for own, test in zip(trained, tested, strict=True):
        assert test.tolist() == counts_like(own, 300).tolist()
        assert test.sum() == 300
    seen = np.concatenate(both["tests"])
    assert len(np.unique(seen)) < len(seen)
    assert all(len(set(own)) == len(own) for own in both["tests"])
    assert both["clients"] == content(clients=100)["clients"]


def test_classes_that_run_out_are_made_up_for_by_the_others_alike_for_all_clients():
    labels = np.repeat(np.arange(62), LETTERS)
    held = ClassGroups(clients=3, samples=100, spread=0.5, groups="characters").deal(labels, draws(1, "letters"))
    found = counts(labels, held, 62)
    # 150 of 62 classes: two of each, and a third of the first 26; then 50 of what is left of a group
    spread = np.array([3] * 26 + [2] * 36)
    for client, own in enumerate(found):
        group = list(CHARACTERS[client])
        assert (abs(np.delete(own, group) - np.delete(spread, group) / 3) < 1).all()
        assert own.sum() == 100
    small = found[2][36:] - 2 / 3
    assert (abs(small - 50 / 26) < 2).all()
    scarce = np.array([0] * 8 + [1] * 300 + [2] * 300)
    own = counts(scarce, ClassGroups(clients=1, samples=60, spread=0.0).deal(scarce, draws(0, "d")), 3)[0]
    assert own.tolist() == [8, 26, 26]


def test_draws_decide_which_samples_and_nothing_else():
    one, same, other = (ClassGroups().deal(FASHION, draws(seed, "deal")) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])
    assert np.array_equal(counts(FASHION, one), counts(FASHION, other))


def test_everything_or_nothing_may_be_spread():
    even = counts(FASHION, ClassGroups(clients=5, samples=100, spread=1.0).deal(FASHION, draws(0, "d")))
    assert (even == 10).all()
    own = counts(FASHION, ClassGroups(clients=5, samples=100, spread=0.0).deal(FASHION, draws(0, "d")))
    assert all(row[list(OVERLAPPING[k])].sum() == 100 for k, row in enumerate(own))


def test_too_few_samples_and_foreign_classes_are_refused_in_one_line():
    with pytest.raises(UserError, match=r"14400 samples of all classes are needed, but there are 60: lower samples"):
        ClassGroups(clients=120).deal(np.arange(60) % 10, draws(0, "d"))
    with pytest.raises(UserError, match="of group 0 of 'overlapping' are needed"):
        ClassGroups(clients=100, samples=640).deal(FASHION, draws(0, "d"))
    with pytest.raises(UserError, match="made for 10 classes, but there is a class 61"):
        ClassGroups().deal(np.arange(62), draws(0, "d"))
    with pytest.raises(UserError, match="clients must be a whole number above 0"):
        ClassGroups(clients=0)
