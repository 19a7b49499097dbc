"""What a stand-in keeps of print: settings that hold on smaller data, by the items as they are."""

from dataclasses import replace
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
    runs = trainings("lrp/cifar100-half", "small", "shards")
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


@pytest.mark.parametrize("block", ["shards", "even", "dirichlet"])
def test_methods_share_one_deal_of_a_seed(block):
    runs = trainings("lrp/cifar100-half", "small", block)
    for seed in (1024, 1022, 1020):
        own = [run.spec for run in runs if run.spec.seeds == (seed,)]
        assert {spec.partition.seed for spec in own} == {seed}
        assert len({spec.dataset for spec in own}) == 1


@pytest.mark.parametrize(
    ("block", "key", "other"), [("shards", "table2", "cifar10"), ("dirichlet", "table6", "cifar10")]
)
def test_the_half_is_trained_as_the_tables_train_cifar_10(block, key, other):
    (half, *_), (whole, *_) = (
        trainings(f"lrp/{item}", "small", name) for item, name in (("cifar100-half", block), (key, other))
    )
    differs = {"dataset", "partition"}
    assert half.spec.model_dump(exclude=differs) == whole.spec.model_dump(exclude=differs)
    settings = {**whole.spec.partition.settings}
    if "shard_size" in settings:
        settings["shard_size"] = 50
    assert half.spec.partition.settings == settings


def attacks(key, scale, **wanted):
    """Return the attacks of an item whose captures have these values: defense, batch_size, ..."""
    found = []
    for run in expand(load_item(ITEMS / f"{key}.yaml"), scale):
        capture = run.spec.attack.capture
        known = {**dict(capture), "defense": capture.defense.name, "images": capture.images.count}
        if all(known[name] == value for name, value in wanted.items()):
            found.append(run)
    return found


def test_figure_7_repeats_one_image_six_times_at_each_factor():
    repeats = attacks("lrp/figure7", "small", draws=6)
    assert {run.spec.attack.capture.images.count for run in repeats} == {1}
    assert {run.variant for run in repeats} == {"six-repeats"}
    # the image is the first of those whose numbers the table has, and it meets the same attackers
    numbers = attacks("lrp/figure7", "small", draws=2)
    seeds = {run.spec.attack.capture.images.seed for run in (*repeats, *numbers)}
    assert seeds == {0}
    tried = [
        sorted(
            (run.attacker, run.spec.attack.attack.name, run.spec.attack.transform.name, run.choice["client_weight"])
            for run in own
        )
        for own in (repeats, numbers)
    ]
    assert tried[0] == tried[1]
    assert {factor for *_, factor in tried[0]} == {0.5, 1.0, 2.0}
    assert all(run.spec.attack.capture.draws == 6 for run in attacks("lrp/figure7", "paper"))


DEFENSES = {"none", "hide-bn", "hide-classifier", "lsp", "bsp", "lrp"}


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_figure_8_has_the_printed_batch_and_factor_under_every_defense(scale):
    printed = attacks("lrp/figure8", scale, batch_size=4, local_steps=4, client_weight=2.0)
    tried = {}
    for run in printed:
        own = tried.setdefault(run.spec.attack.capture.defense.name, set())
        own.add((run.attacker, run.spec.attack.attack.name, run.spec.attack.transform.name))
    assert set(tried) == DEFENSES
    # whoever is tried on one defense is tried on all, and without any
    assert len(set(map(frozenset, tried.values()))) == 1
    assert all(run.spec.attack.capture.images.count // 4 >= (6 if scale == "small" else 1) for run in printed)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_figure_9_has_four_images_in_an_update_as_printed(scale):
    printed = attacks("lrp/figure9", scale, batch_size=4, local_steps=4)
    papers = [run for run in printed if run.attacker == "paper"]
    assert {run.spec.attack.capture.defense.name for run in papers} == {"none", "lrp"}
    assert all(run.spec.attack.capture.images.count == {"small": 24, "paper": 32}[scale] for run in printed)
    assert {run.variant for run in printed} == {"as-described"}


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_the_rates_that_are_chosen_from_are_tried_as_table_2_trains(scale):
    candidates = expand(load_item(ITEMS / "lrp/table2-rates.yaml"), scale)
    table = [
        run
        for run in expand(load_item(ITEMS / "lrp/table2.yaml"), scale)
        if run.choice["row"].get("method") == "vanilla-scheme1" and run.spec.seeds == (1024,)
    ]
    if scale == "small":  # of CIFAR-100 the half is at hand, which has an item of its own
        half = trainings("lrp/cifar100-half", scale, "shards")
        table.append(replace(half[0], block="cifar100"))
    assert {run.block for run in candidates} == {run.block for run in table}
    for run in candidates:
        (own,) = [other.spec for other in table if other.block == run.block]
        assert own.model_copy(update={"rates": run.spec.rates, "evaluate": ("validation",)}) == run.spec
        # the rate that the item says table 2 has
        assert own.rates == ((run.choice["row"]["used"],),)
        assert {(0.1,), (0.01,), (0.001,), *own.rates} == set(run.spec.rates)
