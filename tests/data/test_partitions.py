import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.data.partitions.shards import cut, whole
from leaklab.records.errors import UserError
from leaklab.records.plugins import available, load
from leaklab.records.streams import stream

ROOM = "data/partitions"


def shuffled_labels(counts, seed=0):
    """Return labels with the given number of samples per label, in random order."""
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return labels[stream(seed, "test", "labels").permutation(len(labels))]


def deal(name, labels, seed=0, **chosen):
    return load(ROOM, name, chosen).deal(labels, stream(seed, "test", name))


def assert_no_index_twice(clients, samples):
    everyone = torch.cat(clients)
    assert everyone.dtype == torch.int64
    assert len(everyone.unique()) == len(everyone)
    assert everyone.min() >= 0
    assert everyone.max() < samples


MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
DIGITS_COUNTS = [142, 145, 141, 146, 144, 145, 144, 143, 139, 144]
SMALL = shuffled_labels([60] * 10)


def test_the_room_offers_exactly_its_plug_ins():
    assert available(ROOM) == ["iid", "label-shards", "two-clients"]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("iid", {"clients": 7}),
        ("two-clients", {"shard_size": 10}),
        ("label-shards", {"clients": 10, "shard_size": 20, "smallest": 1, "largest": 9}),
    ],
)
class TestEveryPartition:
    def test_no_index_twice(self, name, chosen):
        assert_no_index_twice(deal(name, SMALL, **chosen), len(SMALL))

    def test_the_same_seed_gives_the_same_deal(self, name, chosen):
        pairs = zip(deal(name, SMALL, **chosen), deal(name, SMALL, **chosen), strict=True)
        assert all(torch.equal(first, second) for first, second in pairs)

    def test_another_seed_gives_another_deal(self, name, chosen):
        first, second = deal(name, SMALL, **chosen), deal(name, SMALL, seed=1, **chosen)
        assert [part.tolist() for part in first] != [part.tolist() for part in second]

    @pytest.mark.parametrize("value", [0, -3, 2.5, "ten", True])
    def test_settings_must_be_positive_whole_numbers(self, name, chosen, value):
        for setting in chosen:
            with pytest.raises(UserError, match=f"partition {name}: {setting} must be a whole number above 0"):
                load(ROOM, name, {**chosen, setting: value})


class TestShards:
    def test_cut_covers_everything_sorted_by_label(self):
        shards = cut(SMALL, 70)
        assert [len(shard) for shard in shards] == [70] * 8 + [40]
        assert SMALL[torch.cat(shards)].tolist() == sorted(SMALL.tolist())

    def test_cut_keeps_the_order_within_a_label(self):
        assert torch.cat(cut(torch.tensor([1, 0, 1, 0, 0]), 2)).tolist() == [1, 3, 4, 0, 2]

    @pytest.mark.parametrize("size", [1, 7, 10, 33, 60, 61])
    def test_whole_shards_are_those_with_one_label(self, size):
        labels = shuffled_labels([25, 0, 60, 47, 68])
        pure = {
            k: int(labels[shard[0]])
            for k, shard in enumerate(cut(labels, size))
            if len(shard) == size and len(labels[shard].unique()) == 1
        }
        for label in range(5):
            assert list(whole(labels.bincount(), size, label)) == [k for k, one in pure.items() if one == label]


class TestIid:
    def test_equal_parts_as_printed(self):
        clients = deal("iid", torch.zeros(60_000, dtype=torch.int64))
        assert [len(part) for part in clients] == [600] * 100

    def test_what_is_left_over_is_not_dealt(self):
        assert [len(part) for part in deal("iid", SMALL, clients=7)] == [85] * 7

    def test_labels_are_mixed(self):
        assert all(len(SMALL[part].unique()) == 10 for part in deal("iid", SMALL, clients=4))

    def test_more_clients_than_samples(self):
        with pytest.raises(UserError, match="100 clients but 99 samples: ask for fewer clients"):
            deal("iid", torch.zeros(99, dtype=torch.int64))


class TestTwoClients:
    labels = shuffled_labels(MNIST_COUNTS)

    def test_eight_hundred_samples_of_the_printed_labels(self):
        few, many = deal("two-clients", self.labels)
        assert self.labels[few].bincount().tolist() == [400, 400]
        assert self.labels[many].bincount().tolist() == [0, 0] + [100] * 8

    def test_samples_come_in_whole_shards(self):
        shards = {frozenset(shard.tolist()) for shard in cut(self.labels, 100)}
        for client in deal("two-clients", self.labels):
            assert all(frozenset(shard.tolist()) in shards for shard in client.split(100))

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
        assert labels[torch.cat(deal("two-clients", labels, shard_size=10))].max() == 9


class TestLabelShards:
    def test_mnist_as_printed(self):
        labels = shuffled_labels(MNIST_COUNTS)
        clients = deal("label-shards", labels)
        sizes = torch.tensor([len(part) for part in clients])
        assert len(clients) == 100
        assert sizes.sum() == 60_000
        assert (sizes % 200 == 0).all()
        assert sizes.min() >= 200
        assert sizes.max() <= 1800
        # drawn uniformly from 1..9 and then repaired: far wider than dealing shards one by one
        assert (sizes / 200).std() > 1.5

    def test_clients_have_few_labels(self):
        labels = shuffled_labels(MNIST_COUNTS)
        assert all(len(labels[shard].unique()) <= 2 for shard in cut(labels, 200))
        for part in deal("label-shards", labels):
            assert len(labels[part].unique()) <= 2 * len(part) // 200

    def test_infeasible_limits_show_the_arithmetic(self):
        """The printed CIFAR setting: 1,000 shards, but at most 9 for each of 100 clients."""
        with pytest.raises(UserError) as caught:
            deal("label-shards", torch.zeros(50_000, dtype=torch.int64), shard_size=50)
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
        labels = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=samples, max_size=samples)))
        seed = data.draw(st.integers(0, 99), label="seed")
        parts = deal("label-shards", labels, seed, clients=clients, shard_size=size, smallest=smallest, largest=largest)
        assert sorted(torch.cat(parts).tolist()) == list(range(samples))
        assert len(parts) == clients
        assert all(smallest <= -(-len(part) // size) <= largest for part in parts)
