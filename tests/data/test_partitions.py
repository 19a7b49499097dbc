import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.data.partitions.base import GroupPartition
from leaklab.data.partitions.shards import cut, whole
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.records.plugins import available, imported, load

ROOM = "data/partitions"


def shuffled_labels(counts, seed=0):
    """Return labels with the given number of samples per label, in random order."""
    labels = np.repeat(np.arange(len(counts)), counts)
    return labels[draws(seed, "test", "labels").permutation(len(labels))]


def deal(name, labels, seed=0, **chosen):
    """Deal by label, or by group if the partition looks at groups: ``labels`` then say who made each sample."""
    partition = load(ROOM, name, chosen)
    make = partition.deal_groups if isinstance(partition, GroupPartition) else partition.deal
    return make(labels, draws(seed, "test", name))


def made_without_a_plan(name, chosen):
    """Return the partition from its class: ``load`` refuses most wrong settings before the class sees them."""
    return imported(ROOM, name)(**chosen)


def assert_no_index_twice(clients, samples):
    everyone = np.concatenate(clients)
    assert everyone.dtype == np.int64
    assert len(np.unique(everyone)) == len(everyone)
    assert everyone.min() >= 0
    assert everyone.max() < samples


MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
LABELS_OF_MNIST = shuffled_labels(MNIST_COUNTS)
DIGITS_COUNTS = [142, 145, 141, 146, 144, 145, 144, 143, 139, 144]
OTHERS = {
    "by-writer": {"clients": 2},
    "class-groups": {"clients": 5, "samples": 60},
    "client-dirichlet": {"clients": 2},
    "dirichlet": {"clients": 2},
    "iid": {"clients": 2},
    "label-shards": {"clients": 10, "shard_size": 10},
    "two-clients": {"shard_size": 10},
}
SMALL = shuffled_labels([60] * 10)


def test_the_room_offers_exactly_its_plug_ins():
    assert available(ROOM) == [
        "by-writer", "class-groups", "client-dirichlet", "dirichlet", "iid", "label-shards", "two-clients"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("iid", {"clients": 7}),
        ("two-clients", {"shard_size": 10}),
        ("label-shards", {"clients": 10, "shard_size": 20, "smallest": 1, "largest": 9}),
        ("dirichlet", {"clients": 8, "minimum": 5}),
        ("client-dirichlet", {"clients": 8}),
        ("by-writer", {"clients": 3}),
    ],
)
class TestEveryPartition:
    def test_no_index_twice(self, name, chosen):
        assert_no_index_twice(deal(name, SMALL, **chosen), len(SMALL))

    def test_the_same_seed_gives_the_same_deal(self, name, chosen):
        pairs = zip(deal(name, SMALL, **chosen), deal(name, SMALL, **chosen), strict=True)
        assert all(np.array_equal(first, second) for first, second in pairs)

    def test_other_deals_in_between_change_nothing(self, name, chosen):
        first = deal(name, SMALL, **chosen)
        for other in available(ROOM):
            deal(other, SMALL, **OTHERS[other])
        assert all(np.array_equal(a, b) for a, b in zip(first, deal(name, SMALL, **chosen), strict=True))

    def test_another_seed_gives_another_deal(self, name, chosen):
        first, second = deal(name, SMALL, **chosen), deal(name, SMALL, seed=1, **chosen)
        assert [part.tolist() for part in first] != [part.tolist() for part in second]

    @pytest.mark.parametrize("value", [0, -3, 2.5, "ten", True])
    def test_settings_must_be_positive_whole_numbers(self, name, chosen, value):
        for setting in chosen:
            wrong = {**chosen, setting: value}
            kind = "greater than or equal to 1" if type(value) is int else "a valid integer"
            message = f"{ROOM} plug-in '{name}': {setting}: Input should be {kind}, not {value!r}"
            with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
                load(ROOM, name, wrong)
            with pytest.raises(UserError, match=f"partition {name}: {setting} must be a whole number above 0"):
                made_without_a_plan(name, wrong)


class TestShards:
    def test_cut_covers_everything_sorted_by_label(self):
        shards = cut(SMALL, 70)
        assert [len(shard) for shard in shards] == [70] * 8 + [40]
        assert SMALL[np.concatenate(shards)].tolist() == sorted(SMALL.tolist())

    def test_cut_keeps_the_order_within_a_label(self):
        assert np.concatenate(cut(np.array([1, 0, 1, 0, 0]), 2)).tolist() == [1, 3, 4, 0, 2]

    @pytest.mark.parametrize("size", [1, 7, 10, 33, 60, 61])
    def test_whole_shards_are_those_with_one_label(self, size):
        labels = shuffled_labels([25, 0, 60, 47, 68])
        pure = {
            k: int(labels[shard[0]])
            for k, shard in enumerate(cut(labels, size))
            if len(shard) == size and len(np.unique(labels[shard])) == 1
        }
        for label in range(5):
            assert list(whole(np.bincount(labels), size, label)) == [k for k, one in pure.items() if one == label]


class TestIid:
    def test_equal_parts_as_printed(self):
        clients = deal("iid", np.zeros(60_000, dtype=np.int64))
        assert [len(part) for part in clients] == [600] * 100

    def test_what_is_left_over_is_not_dealt(self):
        assert [len(part) for part in deal("iid", SMALL, clients=7)] == [85] * 7

    def test_labels_are_mixed(self):
        assert all(len(np.unique(SMALL[part])) == 10 for part in deal("iid", SMALL, clients=4))

    def test_more_clients_than_samples(self):
        with pytest.raises(UserError, match="100 clients but 99 samples: ask for fewer clients"):
            deal("iid", np.zeros(99, dtype=np.int64))


class TestTwoClients:
    labels = shuffled_labels(MNIST_COUNTS)

    def test_eight_hundred_samples_of_the_printed_labels(self):
        few, many = deal("two-clients", self.labels)
        assert np.bincount(self.labels[few]).tolist() == [400, 400]
        assert np.bincount(self.labels[many]).tolist() == [0, 0] + [100] * 8

    def test_samples_come_in_whole_shards(self):
        shards = {frozenset(shard.tolist()) for shard in cut(self.labels, 100)}
        for client in deal("two-clients", self.labels):
            assert all(frozenset(shard.tolist()) in shards for shard in np.split(client, 8))

    def test_too_few_samples_names_the_largest_shard_size_that_fits(self):
        labels = shuffled_labels(DIGITS_COUNTS)
        with pytest.raises(UserError) as caught:
            deal("two-clients", labels)
        assert "label 0 has 1 whole shards of 100 samples but 4 are needed" in str(caught.value)
        fits = int(str(caught.value).rsplit(" ", 1)[1])
        few, many = deal("two-clients", labels, shard_size=fits)
        assert len(few) == len(many) == 8 * fits
        for larger in range(fits + 1, 100):
            with pytest.raises(UserError):
                deal("two-clients", labels, shard_size=larger)

    def test_too_few_labels(self):
        with pytest.raises(UserError, match="use a dataset with the labels 0 to 9"):
            deal("two-clients", shuffled_labels([600, 600]))

    def test_labels_above_nine_are_not_used(self):
        labels = shuffled_labels([50] * 12)
        assert labels[np.concatenate(deal("two-clients", labels, shard_size=10))].max() == 9


class TestLabelShards:
    def test_mnist_as_printed(self):
        labels = shuffled_labels(MNIST_COUNTS)
        clients = deal("label-shards", labels)
        sizes = np.array([len(part) for part in clients])
        assert len(clients) == 100
        assert sizes.sum() == 60_000
        assert (sizes % 200 == 0).all()
        assert sizes.min() >= 200
        assert sizes.max() <= 1800
        # drawn uniformly from 1..9 and then repaired: far wider than dealing shards one by one
        assert (sizes / 200).std(ddof=1) > 1.5

    def test_at_most_two_labels_per_shard_where_classes_are_larger_than_shards(self):
        """Sizes of MNIST's classes are no multiples of 200: some shards lie across a border."""
        kinds = [len(np.unique(LABELS_OF_MNIST[shard])) for shard in cut(LABELS_OF_MNIST, 200)]
        assert set(kinds) == {1, 2}
        assert kinds.count(2) == sum(int(end) % 200 > 0 for end in np.cumsum(MNIST_COUNTS))

    def test_clients_have_few_labels(self):
        labels = shuffled_labels(MNIST_COUNTS)
        assert all(len(np.unique(labels[shard])) <= 2 for shard in cut(labels, 200))
        for part in deal("label-shards", labels):
            assert len(np.unique(labels[part])) <= 2 * len(part) // 200

    def test_infeasible_limits_show_the_arithmetic(self):
        """The printed CIFAR setting: 1,000 shards, but at most 9 for each of 100 clients."""
        with pytest.raises(UserError) as caught:
            deal("label-shards", np.zeros(50_000, dtype=np.int64), shard_size=50)
        assert "50000 samples in shards of 50 are 1000 shards" in str(caught.value)
        assert "100 clients with 1 to 9 shards each take 100 to 900" in str(caught.value)

    def test_too_few_shards_for_the_clients(self):
        with pytest.raises(UserError, match="3 shards, but 100 clients"):
            deal("label-shards", SMALL)

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_every_feasible_setting_deals_everything_within_the_limits(self, data):
        clients = data.draw(st.integers(1, 12), label="clients")
        smallest = data.draw(st.integers(1, 5), label="smallest")
        largest = data.draw(st.integers(smallest, 9), label="largest")
        size = data.draw(st.integers(1, 6), label="shard size")
        shards = data.draw(st.integers(clients * smallest, clients * largest), label="shards")
        samples = size * shards - data.draw(st.integers(0, size - 1), label="missing in the last shard")
        labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=samples, max_size=samples)))
        seed = data.draw(st.integers(0, 99), label="seed")
        parts = deal("label-shards", labels, seed, clients=clients, shard_size=size, smallest=smallest, largest=largest)
        assert sorted(np.concatenate(parts).tolist()) == list(range(samples))
        assert len(parts) == clients
        assert all(smallest <= -(-len(part) // size) <= largest for part in parts)

    def test_cifar_as_printed_leaves_shards_unused(self):
        labels = shuffled_labels([5000] * 10)
        clients = deal("label-shards", labels, shard_size=50, use_all=False)
        numbers = np.array([len(part) for part in clients]) / 50
        assert_no_index_twice(clients, 50_000)
        assert (numbers.min(), numbers.max()) == (1, 9)
        # nothing is repaired: the mean of 100 uniform numbers from 1..9, within five standard errors
        assert abs(numbers.mean() - 5) < 5 * (20 / 3) ** 0.5 / 10
        shards = {frozenset(shard.tolist()) for shard in cut(labels, 50)}
        assert all(frozenset(shard.tolist()) in shards for part in clients for shard in np.split(part, len(part) // 50))

    def test_cifar_in_shards_of_a_hundred_uses_all(self):
        clients = deal("label-shards", shuffled_labels([5000] * 10), shard_size=100)
        assert sorted(np.concatenate(clients).tolist()) == list(range(50_000))

    def test_using_all_or_not_draws_the_same_numbers_where_they_fit(self):
        """With as many shards as were drawn there is nothing to repair and nothing left over."""
        drawn = sum(map(len, deal("label-shards", SMALL, shard_size=1, clients=20, use_all=False)))
        labels = np.zeros(drawn, dtype=np.int64)
        some, every = (deal("label-shards", labels, shard_size=1, clients=20, use_all=u) for u in (False, True))
        assert [part.tolist() for part in some] == [part.tolist() for part in every]

    def test_the_remedy_is_named_only_where_it_helps(self):
        with pytest.raises(UserError, match="or set use_all to false"):
            deal("label-shards", np.zeros(50_000, dtype=np.int64), shard_size=50)
        for use_all in (True, False):
            with pytest.raises(UserError, match=r"or the limits$"):
                deal("label-shards", SMALL, use_all=use_all)
        with pytest.raises(UserError, match="'label-shards': use_all: Input should be a valid boolean, not 1"):
            load(ROOM, "label-shards", {"use_all": 1})
        with pytest.raises(UserError, match="use_all must be true or false, not 1"):
            made_without_a_plan("label-shards", {"use_all": 1})

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_with_shards_to_spare_the_limits_hold_all_the_same(self, data):
        clients = data.draw(st.integers(1, 12), label="clients")
        smallest = data.draw(st.integers(1, 5), label="smallest")
        largest = data.draw(st.integers(smallest, 9), label="largest")
        size = data.draw(st.integers(1, 4), label="shard size")
        shards = data.draw(st.integers(clients * smallest, 2 * clients * largest), label="shards")
        labels = np.arange(size * shards) % 5
        chosen = {"clients": clients, "shard_size": size, "smallest": smallest, "largest": largest, "use_all": False}
        parts = deal("label-shards", labels, data.draw(st.integers(0, 99), label="seed"), **chosen)
        assert_no_index_twice(parts, len(labels))
        assert len(parts) == clients
        assert all(smallest * size <= len(part) <= largest * size for part in parts)


class TestDirichlet:
    def test_a_hundred_clients_share_all_of_mnist(self):
        labels = shuffled_labels(MNIST_COUNTS)
        clients = deal("dirichlet", labels)
        assert len(clients) == 100
        assert sorted(np.concatenate(clients).tolist()) == list(range(60_000))
        assert min(map(len, clients)) >= 10

    def test_shares_have_the_moments_of_the_distribution(self):
        """Dirichlet(a, ..., a) over n clients: mean 1/n, variance (1/n) (1 - 1/n) / (n a + 1)."""
        for concentration in (0.2, 0.5, 5.0):
            labels = np.repeat(np.arange(2000), 500)
            parts = deal("dirichlet", labels, clients=5, concentration=concentration)
            shares = np.stack([np.bincount(labels[part], minlength=2000) for part in parts]) / 500
            assert shares.mean(1).tolist() == pytest.approx([0.2] * 5, abs=0.05)
            assert shares.var(ddof=1) == pytest.approx(0.2 * 0.8 / (5 * concentration + 1), rel=0.05)

    def test_the_smaller_the_concentration_the_fewer_labels(self):
        labels = shuffled_labels([1000] * 10)
        numbers = [
            sum(len(np.unique(labels[part])) for part in deal("dirichlet", labels, clients=20, concentration=value))
            for value in (0.05, 0.5, 100.0)
        ]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 200

    def test_samples_of_a_label_are_shuffled(self):
        part = deal("dirichlet", np.zeros(1000, dtype=np.int64), clients=2, concentration=100)[0]
        assert part.tolist() != sorted(part.tolist())

    def test_too_small_deals_are_drawn_anew(self):
        """Most single draws leave some client with fewer than 18 samples."""
        labels = shuffled_labels([30] * 10)
        firsts = [min(map(len, deal("dirichlet", labels, seed, clients=10, minimum=1))) for seed in range(20)]
        assert sum(size < 18 for size in firsts) > 15
        for seed in range(20):
            assert min(map(len, deal("dirichlet", labels, seed, clients=10, minimum=18))) >= 18

    def test_what_cannot_succeed_says_so(self):
        with pytest.raises(UserError, match="600 samples are too few for 100 clients with at least 10 each"):
            deal("dirichlet", SMALL)
        with pytest.raises(UserError, match=r"in 1000 draws with concentration 0\.05 some client"):
            deal("dirichlet", SMALL, clients=20, minimum=30, concentration=0.05)

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            (0, "greater than 0"),
            (-1, "greater than 0"),
            ("half", "a valid number"),
            (True, "a valid number"),
            (None, "a valid number"),
            (float("nan"), "a finite number"),
        ],
    )
    def test_concentration_must_be_positive(self, value, kind):
        message = f"'dirichlet': concentration: Input should be {kind}, not {value!r}"
        with pytest.raises(UserError, match=f"{re.escape(message)}$"):
            load(ROOM, "dirichlet", {"concentration": value})

    @pytest.mark.parametrize("value", [0, -1, 0.001, "half", True, None, float("nan")])
    def test_concentration_must_not_underflow(self, value):
        with pytest.raises(UserError, match=r"partition dirichlet: concentration must be at least 0\.01"):
            made_without_a_plan("dirichlet", {"concentration": value})
        if value == 0.001:  # a plan knows of no bound but 0
            with pytest.raises(UserError, match=r"partition dirichlet: concentration must be at least 0\.01"):
                load(ROOM, "dirichlet", {"concentration": value})

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_every_deal_uses_everything_once(self, data):
        clients = data.draw(st.integers(1, 6), label="clients")
        labels = np.array(data.draw(st.lists(st.integers(0, 9), min_size=20 * clients, max_size=150), label="labels"))
        chosen = {"clients": clients, "minimum": 1, "concentration": data.draw(st.sampled_from([0.5, 2.0, 50.0]))}
        parts = deal("dirichlet", labels, data.draw(st.integers(0, 99), label="seed"), **chosen)
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
        assert len(parts) == clients
        assert min(map(len, parts)) >= 1


class TestClientDirichlet:
    @pytest.mark.parametrize(("counts", "size"), [([5000] * 10, 500), ([2400] * 47, 1128)])
    def test_a_hundred_clients_hold_one_percent_each_as_outpost_prints(self, counts, size):
        labels = shuffled_labels(counts)
        parts = deal("client-dirichlet", labels)
        assert [len(part) for part in parts] == [size] * 100
        assert_no_index_twice(parts, len(labels))

    def test_what_does_not_fill_a_sample_for_each_is_not_dealt(self):
        parts = deal("client-dirichlet", SMALL[:100], clients=7)
        assert [len(part) for part in parts] == [14] * 7

    @pytest.mark.parametrize("counts", [[10, 10], [19, 1], [0, 3, 0, 17]])
    def test_clients_that_want_the_same_label_share_it_and_then_take_what_is_left(self, counts):
        """With nearly all of a client's shares on one label, and both on the same one in some of the draws."""
        labels = shuffled_labels(counts)
        for seed in range(20):
            parts = deal("client-dirichlet", labels, seed, clients=2, concentration=0.01)
            assert sorted(np.concatenate(parts).tolist()) == list(range(20))
            assert [len(part) for part in parts] == [10, 10]

    def test_shares_have_the_moments_of_the_distribution(self):
        """Of L labels: variance (1/L) (1 - 1/L) / (L a + 1) of the shares, and that of n draws by them."""
        labels, size, concentration = shuffled_labels([1000] * 10), 500, 5.0
        mean = 1 / 10
        variance = mean * (1 - mean) / (10 * concentration + 1)
        found = []
        for seed in range(20):
            parts = deal("client-dirichlet", labels, seed, clients=20, concentration=concentration)
            found += [np.bincount(labels[part], minlength=10) / size for part in parts]
        expected = variance + (mean * (1 - mean) - variance) / size
        assert np.square(np.array(found) - mean).mean() == pytest.approx(expected, rel=0.1)

    def test_the_smaller_the_concentration_the_fewer_labels(self):
        labels = shuffled_labels([100] * 10)
        counts = [
            sum(
                len(np.unique(labels[part]))
                for part in deal("client-dirichlet", labels, clients=20, concentration=value)
            )
            for value in (0.05, 0.5, 5.0)
        ]
        assert counts == sorted(counts)
        assert counts[0] < counts[2] / 2

    def test_samples_of_a_label_are_shuffled(self):
        part = deal("client-dirichlet", np.zeros(1000, dtype=np.int64), clients=2)[0]
        assert np.sort(part).tolist() != list(range(500))

    def test_more_clients_than_samples(self):
        with pytest.raises(UserError, match="601 clients but 600 samples: ask for fewer clients"):
            deal("client-dirichlet", SMALL, clients=601)

    def test_concentration_must_not_underflow(self):
        with pytest.raises(UserError, match=r"concentration must be at least 0\.01"):
            load(ROOM, "client-dirichlet", {"concentration": 0.001})


class TestByWriter:
    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_writers_stay_together_and_are_dealt_equally(self, data):
        writers = np.array(data.draw(st.lists(st.integers(-5, 40), min_size=1, max_size=80), label="writers"))
        distinct = len(np.unique(writers))
        clients = data.draw(st.integers(1, distinct), label="clients")
        parts = deal("by-writer", writers, data.draw(st.integers(0, 99), label="seed"), clients=clients)
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(writers)))
        owned = [set(writers[part].tolist()) for part in parts]
        assert sum(map(len, owned)) == distinct
        assert max(map(len, owned)) - min(map(len, owned)) <= 1

    def test_more_clients_than_writers(self):
        with pytest.raises(UserError, match="100 clients but 2 writers: ask for fewer clients"):
            deal("by-writer", np.array([3, 3, 8]))
