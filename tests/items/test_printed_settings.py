"""Settings that a paper prints once for several runs hold in each of them, as the items ask for them."""

from math import ceil

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import load_items
from leaklab.specs.attack import CheckSpec
from leaklab.specs.training import TrainSpec


def runs(key, scale, kind):
    found = [run for run in expand(load_items()[key], scale) if isinstance(run.spec, kind)]
    assert found
    return found


@pytest.mark.parametrize(("scale", "epochs"), [("paper", 5), ("small", 2)])
def test_all_approaches_of_hyperfl_train_equally_many_local_epochs(scale, epochs):
    """HyperFL section 5.1: 5 local epochs for all approaches; DP needs no other number, and pFedHN none of its own."""
    for run in runs("hyperfl/table1", scale, TrainSpec):
        if scale == "small" and run.choice["row"]["method"] == "pfedhn":  # 24 steps on every data set, says its note
            continue
        batches = ceil(run.spec.partition.settings["samples"] / run.spec.batch_size)
        assert run.spec.local_steps == epochs * batches, (run.choice["row"], run.spec.local_steps)
    methods = {run.choice["row"]["method"] for run in runs("hyperfl/table1", scale, TrainSpec)}
    assert methods == {"local-only", "fedavg", "pfedhn", "dp-fedavg", "ppsgd", "centaur", "hyperfl"}


PRINTED = {"emnist": (112_800, 1128, 100), "cifar10": (50_000, 500, 150)}
"""OUTPOST section V-A: training samples, those of a client, rounds."""


@pytest.mark.parametrize("item", ["figure3", "figure3-time"])
class TestOutpostTraining:
    def test_a_hundred_clients_hold_one_percent_each(self, item):
        for run in runs(f"outpost/{item}", "paper", TrainSpec):
            samples, own, rounds = PRINTED[run.choice["row"]["dataset"]]
            assert run.spec.partition.name == "client-dirichlet"  # which deals equal sizes
            assert samples // run.spec.partition.settings["clients"] == own
            assert (run.spec.rounds, run.spec.clients_per_round, run.spec.batch_size) == (rounds, 10, 32)
            assert run.spec.local_steps == 5 * ceil(own / 32)

    @pytest.mark.parametrize("scale", ["small", "paper"])
    def test_a_step_is_timed_over_a_whole_printed_round(self, item, scale):
        """OUTPOST perturbs fewer and fewer steps of a round; Soteria's own loop costs the same in every step."""
        for run in runs(f"outpost/{item}", scale, CheckSpec):
            dataset, settings = run.choice["row"]["dataset"], run.spec.check.settings
            if settings.get("defense") != "soteria":
                assert settings["steps"] == 5 * ceil(PRINTED[dataset][1] / 32)

    @pytest.mark.parametrize("scale", ["demo", "small", "paper"])
    def test_the_curve_by_time_ends_where_the_training_ends(self, item, scale):
        clients = {
            (run.choice["row"]["dataset"], run.choice["row"]["defense"]): run.spec
            for run in runs(f"outpost/{item}", scale, TrainSpec)
        }
        for run in runs(f"outpost/{item}", scale, CheckSpec):
            training = clients[run.choice["row"]["dataset"], run.choice["row"]["defense"]]
            steps = training.rounds * training.clients_per_round * training.local_steps
            settings = run.spec.check.settings
            assert settings["points"] * settings["steps_per_point"] == steps
