"""Test splits of clients: the proportions of what they train on, drawn from the test part only when asked for."""

import numpy as np
import pytest

from leaklab.data.deal import counts_like, deal, deal_tests
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.specs.base import run_id
from leaklab.specs.training import PartitionSpec

LABELS = np.arange(200) % 5
TEST_LABELS = np.arange(100) % 5


def spec(**partition):
    choice = {"name": "dirichlet", "clients": 4, "concentration": 0.3, "minimum": 2, **partition}
    return PartitionSpec.model_validate({"dataset": "noise", "partition": choice})


@pytest.mark.parametrize(
    ("held", "total", "expected"),
    [
        ([10, 10], 4, [2, 2]),
        ([1, 0, 2], 3, [1, 0, 2]),
        ([1, 1, 1], 4, [2, 1, 1]),  # equal remainders: the lower class
        ([5, 3, 2], 4, [2, 1, 1]),  # exact shares 2, 1.2, 0.8
        ([7, 0], 3, [3, 0]),
    ],
)
def test_shares_go_to_the_largest_remainders(held, total, expected):
    assert counts_like(np.array(held), total).tolist() == expected


def test_counts_are_within_one_of_the_exact_share_and_add_up():
    own = draws(0, "counts")
    for _ in range(200):
        held, total = own.integers(0, 40, 7), int(own.integers(1, 60))
        held[0] += 1
        counts = counts_like(held, total)
        assert counts.sum() == total
        assert (abs(counts - held * total / held.sum()) < 1).all()
        assert not counts[held == 0].any()


def test_every_client_gets_its_classes_and_none_twice():
    content = deal(spec(tests=15), LABELS, test_labels=TEST_LABELS)
    for trained, tested in zip(content["clients"], content["tests"], strict=True):
        assert tested == sorted(set(tested))
        assert len(tested) == 15
        counts = np.bincount(TEST_LABELS[tested], minlength=5)
        assert np.array_equal(counts, counts_like(np.bincount(LABELS[trained], minlength=5), 15))


def test_a_deal_without_tests_is_as_it_was_and_one_with_tests_trains_on_the_same():
    plain, tested = deal(spec(), LABELS), deal(spec(tests=15), LABELS, test_labels=TEST_LABELS)
    assert "tests" not in plain
    assert "tests" not in plain["spec"]["partition"]
    assert [plain[key] for key in ("clients", "validation", "num_classes")] == [
        tested[key] for key in ("clients", "validation", "num_classes")
    ]
    assert run_id(spec()) == run_id(spec(tests=0)) != run_id(spec(tests=15))


def test_too_few_test_samples_of_a_class_are_refused():
    with pytest.raises(UserError, match="client 3 needs 21 test samples of class 2, but there are 20: lower it"):
        deal_tests(3, np.full(9, 2), TEST_LABELS, 21, draws(0, "x"))
    with pytest.raises(UserError, match="noise has no test part"):
        deal(spec(tests=3), LABELS)
