import pytest
import torch

from leaklab.data.deal import deal, read_clients
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.records.specs import PartitionSpec

LABELS = torch.arange(10).repeat(30)


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


def test_written_and_read_back(tmp_path):
    content = deal(spec(name="iid", clients=3), LABELS)
    write_json(tmp_path / "partition.json", content)
    clients = read_clients(tmp_path / "partition.json", len(LABELS))
    assert [part.tolist() for part in clients] == content["clients"]
    assert all(part.dtype == torch.int64 for part in clients)


@pytest.mark.parametrize("clients", [[], [[]], [[0, 1], [1, 2]], [[0, 300]], [[-1, 2]]])
def test_indices_that_do_not_fit_are_refused(tmp_path, clients):
    write_json(tmp_path / "partition.json", {"clients": clients})
    with pytest.raises(UserError, match="does not fit a training part of 300 samples"):
        read_clients(tmp_path / "partition.json", 300)


@pytest.mark.parametrize("content", [[], {}, {"clients": 3}, {"clients": [["a"]]}])
def test_what_is_no_partition_is_refused(tmp_path, content):
    write_json(tmp_path / "partition.json", content)
    with pytest.raises(UserError, match="is no partition"):
        read_clients(tmp_path / "partition.json", 300)
