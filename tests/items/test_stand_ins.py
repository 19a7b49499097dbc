"""What a stand-in keeps of print: settings that hold on smaller data, by the items as they are."""

from pathlib import Path

import numpy as np
import pytest

from leaklab.data.deal import deal
from leaklab.items.expand import expand
from leaklab.items.items import load_item
from leaklab.specs.training import PartitionSpec

ITEMS = Path(__file__).parents[2] / "config/items"
# half of CIFAR-100's training images: 250 of each class
LABELS = np.repeat(np.arange(100), 250)
METHODS = {"vanilla-scheme1", "vanilla-scheme2", "lrp", "ada-lrp"}


def trainings(key, scale, block):
    return [run for run in expand(load_item(ITEMS / f"{key}.yaml"), scale) if run.block == block]


def test_half_of_cifar_100_is_dealt_in_shards_of_the_printed_size():
    runs = trainings("lrp/table2", "small", "cifar100")
    assert {run.choice["row"]["method"] for run in runs} == METHODS
    deals = {run.spec.partition.seed: run.spec.partition for run in runs}
    assert set(deals) == {1024, 1022, 1020}
    for partition in deals.values():
        assert partition.settings == {"shard_size": 50, "smallest": 1, "largest": 9}
        made = deal(PartitionSpec(dataset="cifar100", partition=partition), LABELS)
        held = [len(own) + len(aside) for own, aside in zip(made["clients"], made["validation"], strict=True)]
        assert len(held) == 100
        assert sum(held) == len(LABELS)
        assert {count % 50 for count in held} == {0}
        assert 50 <= min(held) <= max(held) <= 450


@pytest.mark.parametrize("block", ["cifar100", "cifar100-iid"])
def test_methods_share_one_deal_of_a_seed(block):
    runs = trainings("lrp/table2", "small", block)
    for seed in (1024, 1022, 1020):
        own = [run.spec for run in runs if run.spec.seeds == (seed,)]
        assert {spec.partition.seed for spec in own} == {seed}
        assert len({spec.dataset for spec in own}) == 1


def test_numbers_of_the_half_stand_where_those_of_print_stand():
    for key in ("lrp/table2", "lrp/table6"):
        item = load_item(ITEMS / f"{key}.yaml")
        source = item.cells.row["dataset"]
        used = {run.spec.dataset for run in expand(item, "small")}
        assert {source.names.get(name, name) for name in used} == {"mnist", "cifar10", "cifar100"}
