"""The skewed deal: sizes, shares, groups that cycle, no sample twice, and one line where samples run out."""

import numpy as np
import pytest

from leaklab.data.partitions.class_groups import ClassGroups
from leaklab.records.draws import draws
from leaklab.records.errors import UserError

LABELS = np.arange(6000) % 10


def dealt(labels=LABELS, seed=0, **settings):
    return ClassGroups(**settings).deal(labels, draws(seed, "deal"))


def test_groups_are_those_of_the_public_code():
    assert ClassGroups().class_groups(10) == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], [8, 9, 0]]
    characters = ClassGroups(groups="characters").class_groups(62)
    assert [(group[0], group[-1], len(group)) for group in characters] == [(0, 9, 10), (10, 35, 26), (36, 61, 26)]


@pytest.mark.parametrize("spread", [0.0, 0.2, 1.0])
def test_every_client_has_its_share_of_its_group_and_of_all_classes(spread):
    clients = dealt(clients=12, samples=200, spread=spread)
    indices = np.concatenate(clients)
    assert len(np.unique(indices)) == len(indices) == 12 * 200
    groups = ClassGroups().class_groups(10)
    common = round(spread * 200)
    for client, held in enumerate(clients):
        counts = np.bincount(LABELS[held], minlength=10)
        group = groups[client % 5]
        others = np.delete(counts, group)
        assert counts.sum() == 200
        assert np.ptp(counts[group]) <= 2
        assert np.ptp(others) <= 1
        assert abs(others.sum() - common * 7 / 10) <= 7


def test_a_class_that_runs_out_is_made_up_for_by_the_others_of_the_group():
    labels = np.array([0] * 5 + [1] * 100 + [2] * 100)
    (client,) = dealt(labels, clients=1, samples=60, spread=0.0)
    assert np.bincount(labels[client]).tolist()[0] == 5
    assert sorted(np.bincount(labels[client]).tolist()[1:]) == [27, 28]


def test_the_seed_is_the_deal():
    first, again, other = (dealt(seed=seed, clients=5, samples=100) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_what_does_not_fit_is_refused():
    with pytest.raises(UserError, match=r"client \d's group of classes needs 1600 samples, but \d+ are left"):
        dealt(clients=10, samples=2000)
    with pytest.raises(UserError, match="characters are 62 classes, but the data set has 10"):
        dealt(groups="characters")
    with pytest.raises(UserError, match="groups of 3 classes need as many, not 2"):
        dealt(np.arange(100) % 2)
