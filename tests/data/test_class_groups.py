"""Clients with much of one group of classes: exact counts, nobody shares a training sample, tests have the same skew."""

import numpy as np
import pytest

from leaklab.data.deal import deal
from leaklab.data.own_tests import counts_like
from leaklab.data.partitions.class_groups import KINDS, TRIPLES, ClassGroups
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.records.partition_spec import PartitionSpec

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
        group = TRIPLES[client % 5]
        others = np.delete(own, list(group))
        assert (others == 12).all()
        alone = next(label for label in group if sum(label in one for one in TRIPLES) == 1)
        assert abs(own[alone] - 12 - 240) <= 1
        assert all(abs(own[label] - 12 - 120) <= 1 for label in group if label != alone)
        assert own[list(group)].sum() == 36 + 480


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


def test_frequencies_of_unequal_classes_are_kept_in_both_parts():
    labels = np.repeat(np.arange(62), LETTERS)
    held = ClassGroups(clients=3, samples=100, spread=0.5, groups="kinds").deal(labels, draws(1, "letters"))
    found = counts(labels, held, 62)
    spread = counts_like(np.array(LETTERS), 150)
    for client, own in enumerate(found):
        group = list(KINDS[client])
        outside = np.delete(own, group)
        assert (abs(outside - np.delete(spread, group) / 3) < 1).all()
        assert own[group].sum() == 100 - outside.sum()
        left = counts_like(np.array(LETTERS)[group] - spread[group], 50)
        assert (abs(own[group] - left - spread[group] / 3) < 1).all()


def test_draws_decide_which_samples_and_nothing_else():
    one, same, other = (ClassGroups().deal(FASHION, draws(seed, "deal")) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])
    assert np.array_equal(counts(FASHION, one), counts(FASHION, other))


def test_everything_or_nothing_may_be_spread():
    even = counts(FASHION, ClassGroups(clients=5, samples=100, spread=1.0).deal(FASHION, draws(0, "d")))
    assert (even == 10).all()
    own = counts(FASHION, ClassGroups(clients=5, samples=100, spread=0.0).deal(FASHION, draws(0, "d")))
    assert all(row[list(TRIPLES[k])].sum() == 100 for k, row in enumerate(own))


def test_too_few_samples_and_foreign_classes_are_refused_in_one_line():
    with pytest.raises(UserError, match=r"14400 samples of all classes are needed, but there are 60: lower samples"):
        ClassGroups(clients=120).deal(np.arange(60) % 10, draws(0, "d"))
    with pytest.raises(UserError, match="of group 0 of 'triples' are needed"):
        ClassGroups(clients=100, samples=640).deal(FASHION, draws(0, "d"))
    with pytest.raises(UserError, match="made for 10 classes, but there is a class 61"):
        ClassGroups().deal(np.arange(62), draws(0, "d"))
    with pytest.raises(UserError, match="clients must be a whole number above 0"):
        ClassGroups(clients=0)
