import numpy as np
import pytest

from leaklab.data.deal import deal, read_clients, set_aside
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.specs.training import PartitionSpec

LABELS = np.tile(np.arange(10), 30)


def spec(**partition):
    return PartitionSpec.model_validate({"dataset": "toy", "partition": partition})


def test_content_of_the_artefact():
    content = deal(spec(name="two-clients", shard_size=5), LABELS)
    assert [len(indices) for indices in content["clients"]] == [40, 40]
    assert content["num_classes"] == [2, 8]
    assert PartitionSpec.model_validate(content["spec"]) == spec(name="two-clients", shard_size=5)


def test_the_seed_is_the_partitions_own():
    first, again, other = (deal(spec(name="iid", clients=3, seed=seed), LABELS)["clients"] for seed in (4, 4, 5))
    assert first == again
    assert first != other


def test_by_writer_needs_writers():
    content = deal(spec(name="by-writer", clients=2), LABELS, groups=np.arange(300) // 75)
    assert [len(indices) for indices in content["clients"]] == [150, 150]
    with pytest.raises(UserError, match="data set toy does not say who made its samples"):
        deal(spec(name="by-writer", clients=2), LABELS)


def test_written_and_read_back(tmp_path):
    content = deal(spec(name="iid", clients=3), LABELS)
    write_json(tmp_path / "partition.json", content)
    clients = read_clients(tmp_path / "partition.json", len(LABELS))
    assert [part.tolist() for part in clients] == content["clients"]
    assert all(part.dtype == np.int64 for part in clients)


@pytest.mark.parametrize("clients", [[], [[]], [[0, 1], [1, 2]], [[0, 300]], [[-1, 2]]])
def test_indices_that_do_not_fit_are_refused(tmp_path, clients):
    write_json(tmp_path / "partition.json", {"clients": clients})
    with pytest.raises(UserError, match="does not fit a training part of 300 samples"):
        read_clients(tmp_path / "partition.json", 300)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"clients": 3},
        {"clients": [["a"]]},
        {"clients": [["5"]]},
        {"clients": [[1.5]]},
        {"clients": [[[1]]]},
        {"clients": [[2**70]]},
    ],
)
def test_what_is_no_partition_is_refused(tmp_path, content):
    write_json(tmp_path / "partition.json", content)
    with pytest.raises(UserError, match="is no partition"):
        read_clients(tmp_path / "partition.json", 300)


class TestValidation:
    whole = deal(spec(name="iid", clients=3), LABELS)
    content = deal(spec(name="iid", clients=3, validation=0.2), LABELS)

    def test_without_a_share_nothing_is_set_aside(self):
        assert self.whole["validation"] == [[], [], []]
        assert [len(indices) for indices in self.whole["clients"]] == [100] * 3

    def test_a_fifth_of_what_each_client_would_have_trained_on(self):
        for dealt, kept, aside in zip(
            self.whole["clients"], self.content["clients"], self.content["validation"], strict=True
        ):
            assert (len(kept), len(aside)) == (80, 20)
            # the same deal as without a split, and both parts in its order
            assert kept == [index for index in dealt if index not in set(aside)]
            assert aside == [index for index in dealt if index in set(aside)]

    def test_classes_are_those_that_are_trained_on(self):
        """Two samples of different labels: with one of them set aside a single class is left."""
        content = deal(spec(name="iid", clients=1, validation=0.5), np.array([0, 1]))
        assert content["num_classes"] == [1]

    def test_the_seed_decides_and_clients_draw_apart(self):
        again = deal(spec(name="iid", clients=3, validation=0.2), LABELS)
        assert again == self.content
        indices = np.arange(100)
        first, other_client, other_seed = (
            set_aside(indices, 0.2, draws(*name))[1].tolist()
            for name in ((0, "validation", 0), (0, "validation", 1), (1, "validation", 0))
        )
        assert first != other_client
        assert first != other_seed
        dealt = np.array(self.whole["clients"][0])
        assert set_aside(dealt, 0.2, draws(0, "validation", 0))[1].tolist() == self.content["validation"][0]

    @pytest.mark.parametrize(
        ("samples", "share", "aside"),
        [(600, 0.2, 120), (7, 0.2, 1), (8, 0.2, 2), (2, 0.2, 0), (1, 0.9, 0), (3, 0.99, 2), (0, 0.5, 0),
         (100, 0.29, 29)],
    )  # fmt: skip
    def test_rounded_to_the_nearest_but_one_sample_stays(self, samples, share, aside):
        kept, chosen = set_aside(np.arange(samples), share, draws(0, "test"))
        assert (len(kept), len(chosen)) == (samples - aside, aside)

    def test_read_clients_reads_the_training_part(self, tmp_path):
        write_json(tmp_path / "partition.json", self.content)
        clients = read_clients(tmp_path / "partition.json", len(LABELS))
        assert [part.tolist() for part in clients] == self.content["clients"]
