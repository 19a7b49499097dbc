"""The bytes of ``partition.json`` for every way of dealing: published trainings rest on these very deals."""

import hashlib

import numpy as np
import pytest

from leaklab.data.deal import deal
from leaklab.records.draws import draws
from leaklab.records.files import write_json
from leaklab.specs.training import PartitionSpec

MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
UNEVEN = [0, 7, 120, 1, 64, 33, 250, 0, 90, 41, 18, 5]
SMALL = [90] * 10


def shuffled(counts, name):
    labels = np.repeat(np.arange(len(counts)), counts)
    return labels[draws(0, "bytes", name).permutation(len(labels))]


def digest_of(tmp_path, counts, choice):
    labels, tested = shuffled(counts, "train"), shuffled([40] * len(counts), "test")
    groups = draws(0, "bytes", "groups").integers(-3, 60, len(labels))
    spec = PartitionSpec.model_validate({"dataset": "toy", "partition": choice})
    content = deal(spec, labels, groups, tested)
    write_json(tmp_path / "partition.json", content)
    return hashlib.sha256((tmp_path / "partition.json").read_bytes()).hexdigest()[:16]


# digest of the file, samples of each label, partition, what is chosen of it
DEALS = [
    ("e54328ec90817df1", MNIST, "iid", {}),
    ("9fac3c31af5f3980", MNIST, "iid", {"seed": 3, "validation": 0.2}),
    ("8b2086b2304d65b6", SMALL, "iid", {"clients": 7, "validation": 0.29, "tests": 33}),
    ("731e783fe7ce0d28", MNIST, "two-clients", {}),
    ("2df3fc8405a53e88", SMALL, "two-clients", {"shard_size": 20, "seed": 5, "validation": 0.1, "tests": 30}),
    ("6b855ced56c41174", MNIST, "label-shards", {}),
    ("d983bbf5bac8ee28", MNIST, "label-shards", {"seed": 1, "validation": 0.2}),
    ("5f019312f077d85d", [5000] * 10, "label-shards", {"shard_size": 50, "use_all": False}),
    ("285ecbb5225d1dc0", UNEVEN, "label-shards", {"clients": 12, "shard_size": 13, "validation": 0.3}),
    ("c9aff1f4d6e107ae", SMALL, "label-shards", {"clients": 9, "shard_size": 11, "use_all": False, "tests": 25}),
    ("68bf8c18da46ebe7", SMALL, "label-shards", {"clients": 20, "shard_size": 8, "use_all": False, "largest": 7}),
    ("3a84210476cb0108", MNIST, "dirichlet", {}),
    ("24f3214cee6fb0ae", MNIST, "dirichlet", {"seed": 2, "concentration": 0.1, "minimum": 1, "validation": 0.2}),
    ("a4095d3e49f364fe", SMALL, "dirichlet", {"clients": 1, "concentration": 0.01}),
    ("da3cf7e1c1112631", SMALL, "dirichlet", {"clients": 3, "concentration": 0.01, "minimum": 2}),
    ("4095522f486b835d", UNEVEN, "dirichlet", {"clients": 13, "minimum": 3, "tests": 21}),
    ("aecec526e8c53181", SMALL, "dirichlet", {"clients": 10, "minimum": 48, "validation": 0.2, "tests": 17}),
    ("482acf48626e01a2", [500] * 100, "dirichlet", {"clients": 500, "concentration": 5.0, "seed": 4}),
    # a label whose variates are all 0 has no shares
    ("10c9784ddaa93ca8", [1] * 3000, "dirichlet", {"clients": 1, "concentration": 0.01}),
    ("d56050b32fe76596", [500] * 10, "client-dirichlet", {}),
    ("7d021057c7cd8d91", UNEVEN, "client-dirichlet", {"clients": 13, "concentration": 0.05, "seed": 2, "tests": 21}),
    ("e43bd73e5f71d227", MNIST, "by-writer", {"clients": 11}),
    ("214029cc88c109ae", UNEVEN, "by-writer", {"clients": 63, "seed": 9, "validation": 0.2, "tests": 14}),
]


@pytest.mark.parametrize(("expected", "counts", "name", "chosen"), DEALS)
def test_a_deal_has_the_bytes_that_it_always_had(tmp_path, expected, counts, name, chosen):
    assert digest_of(tmp_path, counts, {"name": name, **chosen}) == expected
