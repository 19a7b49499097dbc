"""From the blocks of an item to its runs."""

from collections import Counter
from pathlib import Path

import pytest

from leaklab.items.expand import block_stage, expand, expand_absent
from leaklab.items.items import Item, load_items
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.specs.attack import ScoreSpec
from leaklab.specs.base import run_id
from leaklab.specs.training import TrainSpec

ROOT = Path(__file__).parents[2]
CLASS = "class Plugin:\n    strength: float = 1.0\n\nPLUGIN = Plugin\n"
FEDAVG = CLASS.replace("strength: float = 1.0", "scheme: int = 1")
ROOMS = {
    "models": ["mlp", "cnn_small"],
    "defenses": ["none", "lrp"],
    "federated/algorithms": ["fedavg"],
    "federated/schedules": ["constant"],
    "federated/optimizers": ["sgd"],
    "data/augmentations": ["none"],
    "theory": ["proof"],
    "data/partitions": ["iid"],
    "attacks": ["dlg", "idlg"],
    "attacks/adaptive": ["none", "free_scale"],
    "metrics": ["mse", "psnr"],
}
TRAIN = {
    "stage": "train",
    "dataset": "digits",
    "partition": {"name": "iid"},
    "model": "mlp",
    "rates": [[0.1]],
    "rounds": 2,
    "local_steps": 3,
    "batch_size": 4,
    "seeds": [1, 2],
}

ATTACK = {
    "stage": "attack",
    "dataset": "digits",
    "images": {"count": 2},
    "model": "mlp",
    "attack": "dlg",
    "iterations": 5,
    "metrics": ["mse", "psnr"],
}


@pytest.fixture
def rooms(tmp_path, package_at):
    """A package with a few plug-ins, each with one setting, so that these tests do not hang on the real rooms."""
    for room, names in ROOMS.items():
        (tmp_path / room).mkdir(parents=True, exist_ok=True)
        for name in names:
            (tmp_path / room / f"{name}.py").write_text(FEDAVG if name == "fedavg" else CLASS, encoding="utf-8")
    package_at(tmp_path)


def item(runs, **scale):
    fields = {"paper": "lrp", "item": "table1", "title": "A title", "number": 1, "kind": "table", "renderer": "table"}
    return Item.model_validate({**fields, "runs": runs, "scales": {"small": scale}})


def runs_of(block, **scale):
    return expand(item({"main": block}, **scale), "small")


def choices(runs, *fields):
    return [tuple(run.choice[field] for field in fields) for run in runs]


def refusal(runs, **scale):
    with pytest.raises(UserError) as caught:
        expand(item(runs, **scale), "small")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("config/items/lrp/table1.yaml: ")
    return message.removeprefix("config/items/lrp/table1.yaml: ")


@pytest.mark.usefixtures("rooms")
class TestAxes:
    def test_the_runs_are_the_product_of_all_lists(self):
        runs = runs_of({**TRAIN, "model": ["mlp", "cnn-small"], "rounds": [5, 6, 7]})
        assert len({run_id(run.spec) for run in runs}) == 6
        pairs = {(run.spec.model.name, run.spec.rounds) for run in runs}
        assert pairs == {(m, r) for m in ("mlp", "cnn-small") for r in (5, 6, 7)}

    def test_lists_inside_components_are_axes_too(self):
        runs = runs_of({**TRAIN, "defense": {"name": "lrp", "strength": [0.5, 2.0]}, "partition.seed": [0, 1]})
        found = {(run.spec.defense.settings["strength"], run.spec.partition.seed) for run in runs}
        assert found == {(0.5, 0), (0.5, 1), (2.0, 0), (2.0, 1)}

    def test_seeds_rates_and_metrics_stay_together_in_one_run(self):
        (training,) = runs_of({**TRAIN, "seeds": [3, 4, 5], "rates": [[0.1], [0.2]]})
        assert training.spec.seeds == (3, 4, 5)
        assert training.spec.rates == ((0.1,), (0.2,))
        (attack,) = runs_of(ATTACK)
        assert attack.spec.metrics == ("mse", "psnr")

    def test_a_grid_of_rates_is_one_sweep_over_all_pairs(self):
        block = {key: value for key, value in TRAIN.items() if key != "rates"}
        (run,) = runs_of({**block, "rate": {"grid": [[0.1, 0.2], [0.3, 0.4]]}})
        assert run.spec.rates == ((0.1, 0.3), (0.1, 0.4), (0.2, 0.3), (0.2, 0.4))

    def test_a_block_of_one_value_each_is_one_run_as_described(self):
        (run,) = runs_of(TRAIN)
        assert isinstance(run.spec, TrainSpec)
        assert (run.block, run.variant, block_stage(run)) == ("main", "as-described", "train")

    def test_row_paths_can_rely_on_names_of_components(self):
        (run,) = runs_of({**ATTACK, "defense": "lrp", "transform": {"name": "free-scale"}})
        names = [run.choice[part]["name"] for part in ("model", "defense", "attack", "transform")]
        assert names == ["mlp", "lrp", "dlg", "free-scale"]


@pytest.mark.usefixtures("rooms")
class TestOverridesAndSkips:
    def test_an_override_changes_the_runs_that_it_names_and_no_others(self):
        override = {"when": {"model": "mlp", "defense": ["lrp"]}, "set": {"rounds": 9, "partition.seed": 7}}
        block = {**TRAIN, "model": ["mlp", "cnn-small"], "defense": ["none", "lrp"], "overrides": [override]}
        changed = [run.spec for run in runs_of(block) if (run.spec.rounds, run.spec.partition.seed) == (9, 7)]
        assert [(spec.model.name, spec.defense.name) for spec in changed] == [("mlp", "lrp")]
        assert {run.spec.rounds for run in runs_of(block)} == {2, 9}

    def test_a_condition_sees_the_name_of_a_component_with_settings(self):
        override = {"when": {"defense": "lrp"}, "set": {"rounds": 9}}
        (run,) = runs_of({**TRAIN, "defense": {"name": "lrp", "strength": 2.0}, "overrides": [override]})
        assert run.spec.rounds == 9

    def test_later_overrides_see_what_earlier_ones_set(self):
        first = {"when": {"model": "mlp"}, "set": {"rounds": 9}}
        second = {"when": {"rounds": 9}, "set": {"local_steps": 8}}
        (run,) = runs_of({**TRAIN, "overrides": [first, second]})
        assert run.spec.local_steps == 8

    @pytest.mark.parametrize("place", ["set", "block"])
    def test_what_an_item_adds_holds_at_a_scale_with_overrides_of_its_own(self, place):
        """A scale's list used to replace the item's: an edit of the item was lost there, and nothing said so."""
        added = {"when": {"defense": ["none", "lrp"]}, "set": {"rounds": 9}}
        restated = {"when": {"model": "mlp"}, "set": {"local_steps": 8}}
        block = {**TRAIN, "defense": ["none", "lrp"], "overrides": [added, {**restated, "set": {"local_steps": 7}}]}
        changes = {"overrides": [restated]}
        scale = {"set": changes} if place == "set" else {"blocks": {"main": changes}}
        runs = runs_of(block, **scale)
        assert [(run.spec.rounds, run.spec.local_steps) for run in runs] == [(9, 8), (9, 8)]

    def test_a_scales_override_stands_for_the_one_with_its_condition_and_comes_last(self):
        one, same = ({"when": {"model": "mlp"}, "set": {field: 9}} for field in ("rounds", "local_steps"))
        (run,) = runs_of({**TRAIN, "overrides": [one]}, set={"overrides": [same]})
        assert (run.spec.rounds, run.spec.local_steps) == (2, 9)
        wide = {"when": {"model": ["mlp", "cnn-small"]}, "set": {"rounds": 7, "batch_size": 5}}
        (run,) = runs_of({**TRAIN, "overrides": [wide]}, set={"overrides": [one]})
        assert (run.spec.rounds, run.spec.batch_size) == (9, 5)

    def test_an_empty_list_of_a_scale_takes_all_away(self):
        override = {"when": {"model": "mlp"}, "set": {"rounds": 9}}
        (run,) = runs_of({**TRAIN, "overrides": [override]}, set={"overrides": []})
        assert run.spec.rounds == 2

    def test_what_is_no_list_of_overrides_is_refused_at_a_scale_too(self):
        message = refusal({"main": {**TRAIN, "overrides": []}}, set={"overrides": {"when": "none"}})
        assert message.startswith("runs.main: overrides")

    def test_skipped_combinations_do_not_run(self):
        skip = [{"defense": "none", "rounds": [6, 7]}]
        runs = runs_of({**TRAIN, "defense": ["none", "lrp"], "rounds": [5, 6, 7], "skip": skip})
        found = {(run.spec.defense.name, run.spec.rounds) for run in runs}
        assert found == {("none", 5), ("lrp", 5), ("lrp", 6), ("lrp", 7)}

    @pytest.mark.parametrize("key", ["skip", "overrides"])
    def test_a_condition_with_settings_would_never_hold_and_is_refused(self, key):
        condition = {"defense": {"name": "lrp", "low": 0}}
        given = [condition] if key == "skip" else [{"when": condition, "set": {"rounds": 9}}]
        assert "'defense' is asked for by name, without settings: lrp" in refusal(
            {"main": {**TRAIN, "defense": "none", key: given}}
        )

    def test_the_variant_is_filled_from_the_run(self):
        runs = runs_of({**TRAIN, "partition.seed": [0, 3], "variant": "seed={partition.seed}, {model}"})
        assert [run.variant for run in runs] == ["seed=0, mlp", "seed=3, mlp"]


@pytest.mark.usefixtures("rooms")
class TestLike:
    def test_a_block_starts_from_another_and_replaces_single_fields(self):
        runs = expand(item({"main": TRAIN, "other": {"like": "main", "partition.seed": 5, "rounds": 9}}), "small")
        main, other = (run.spec for run in runs)
        assert [run.block for run in runs] == ["main", "other"]
        assert (other.partition.name, other.partition.seed, other.rounds) == ("iid", 5, 9)
        assert (main.partition.seed, main.rounds) == (0, 2)
        assert other.model_copy(update={"partition": main.partition, "rounds": main.rounds}) == main

    def test_a_chain_is_followed_to_its_start(self):
        blocks = {"third": {"like": "second", "rounds": 4}, "second": {"like": "first", "batch_size": 8}}
        runs = expand(item({**blocks, "first": TRAIN}), "small")
        assert [(run.block, run.spec.rounds, run.spec.batch_size) for run in runs] == [
            ("third", 4, 8),
            ("second", 2, 8),
            ("first", 2, 4),
        ]

    def test_the_inherited_block_itself_is_not_changed(self):
        asked = item({"main": TRAIN, "other": {"like": "main", "partition.seed": 5}})
        assert expand(asked, "small") == expand(asked, "small")
        assert asked.runs["main"] == TRAIN

    def test_a_circle_is_refused(self):
        message = refusal({"first": {"like": "second"}, "second": {"like": "first"}})
        assert message.startswith("runs.")
        assert "in a circle" in message
        assert "in a circle" in refusal({"main": {"like": "main"}})


@pytest.mark.usefixtures("rooms")
class TestScales:
    def test_dotted_paths_change_fields_of_every_block(self):
        blocks = {"main": TRAIN, "other": {"like": "main", "batch_size": 9}}
        runs = expand(item(blocks, set={"partition.seed": 4, "rounds": 1}), "small")
        assert {(run.spec.partition.name, run.spec.partition.seed, run.spec.rounds) for run in runs} == {("iid", 4, 1)}
        assert [run.spec.batch_size for run in runs] == [4, 9]

    def test_a_block_of_the_scale_wins_over_set(self):
        blocks = {"main": TRAIN, "other": {"like": "main"}}
        changed = {"set": {"rounds": 1}, "blocks": {"other": {"rounds": [6, 7]}}}
        runs = expand(item(blocks, **changed), "small")
        assert [(run.block, run.spec.rounds) for run in runs] == [("main", 1), ("other", 6), ("other", 7)]

    def test_a_dotted_path_gives_settings_to_a_component_that_had_only_a_name(self):
        (run,) = runs_of({**TRAIN, "defense": "lrp"}, set={"defense.strength": 3.0})
        assert (run.spec.defense.name, run.spec.defense.settings) == ("lrp", {"strength": 3.0})

    def test_dropped_blocks_do_not_run(self):
        runs = expand(item({"main": TRAIN, "other": {"like": "main"}}, drop=["main"]), "small")
        assert [run.block for run in runs] == ["other"]

    def test_a_scale_that_the_item_does_not_have_is_named(self):
        with pytest.raises(UserError, match=r"table1\.yaml: scales: 'demo' is missing"):
            expand(item({"main": TRAIN}), "demo")


@pytest.mark.usefixtures("rooms")
class TestAttackBlocks:
    def test_flat_fields_go_to_the_part_that_knows_them(self):
        block = {**ATTACK, "draws": 3, "seed": 8, "restarts": 2, "transform": "free-scale", "kind": "delta"}
        (run,) = runs_of(block)
        assert isinstance(run.spec, ScoreSpec)
        assert block_stage(run) == "score"
        attack, capture = run.spec.attack, run.spec.attack.capture
        assert (attack.attack.name, attack.transform.name, attack.restarts) == ("dlg", "free-scale", 2)
        assert (capture.draws, capture.kind, capture.images.count) == (3, "delta", 2)

    def test_all_attacks_on_one_observation_share_its_capture(self):
        runs = runs_of({**ATTACK, "attack": ["dlg", "idlg"], "transform": ["none", "free-scale"]})
        assert len(runs) == 4
        assert len({run_id(run.spec.attack.capture) for run in runs}) == 1

    def test_an_attacker_who_knows_the_defense_is_told_apart(self):
        blocks = {"printed": {**ATTACK, "transform": ["none", "free-scale"]}}
        blocks["other"] = {**ATTACK, "attack": "idlg", "attacker": "knowing"}
        found = [(run.block, run.spec.attack.transform.name, run.attacker) for run in expand(item(blocks), "small")]
        assert found == [
            ("printed", "none", "paper"),
            ("printed", "free-scale", "knowing"),
            ("other", "none", "knowing"),
        ]

    def test_an_unknown_attacker_is_refused(self):
        message = refusal({"main": {**ATTACK, "attacker": "smart"}})
        assert message == "runs.main: attacker: Input should be 'paper', 'blind' or 'knowing'"

    def test_an_architecture_block_runs_nothing(self):
        runs = runs_of({"stage": "architecture", "dataset": ["mnist", "lfw"], "model": "mlp"})
        assert [run.spec for run in runs] == [None, None]
        assert choices(runs, "dataset", "model") == [("mnist", {"name": "mlp"}), ("lfw", {"name": "mlp"})]
        assert block_stage(runs[0]) == "architecture"


@pytest.mark.usefixtures("rooms")
class TestRefusals:
    """Each is one line that names the file and the place in it."""

    def test_unknown_blocks(self):
        assert refusal({"main": {"like": "mian"}}) == "runs.main.like: no block 'mian': there are main"
        assert refusal({"main": TRAIN}, drop=["mian"]) == "scales.small: no block 'mian': there are main"
        assert refusal({"main": TRAIN}, blocks={"mian": {}}) == "scales.small: no block 'mian': there are main"

    def test_unknown_stages(self):
        message = refusal({"main": {**TRAIN, "stage": "trian"}})
        assert message.startswith("runs.main.stage: unknown stage 'trian': choose from architecture, ")
        assert "runs.trian.stage: unknown stage 'trian'" in refusal({"trian": {"dataset": "digits"}})

    def test_unknown_fields_of_a_training_block(self):
        message = refusal({"main": {**TRAIN, "round": 3}})
        assert message.startswith("runs.main: round: unknown key; known keys are algorithm, augmentation, backbone, ")

    def test_unknown_fields_of_an_attack_block(self):
        message = refusal({"main": {**ATTACK, "iteration": 3}})
        assert message.startswith("runs.main.iteration: unknown key; known keys are algorithm, attack, augmentation, ")
        assert "capture" not in message.partition("known keys")[2]

    def test_unknown_fields_set_by_a_scale(self):
        assert refusal({"main": TRAIN}, set={"round": 3}).startswith("runs.main: round: unknown key")

    def test_missing_fields(self):
        block = {key: value for key, value in TRAIN.items() if key != "rounds"}
        assert refusal({"main": block}) == "runs.main: rounds: Field required"

    @pytest.mark.parametrize(
        ("block", "room", "names"),
        [
            ({**TRAIN, "model": "mlpp"}, "models", "cnn-small, mlp"),
            ({**TRAIN, "defense": "lrpp"}, "defenses", "lrp, none"),
            ({**TRAIN, "algorithm": "scheme3"}, "federated/algorithms", "fedavg"),
            ({**TRAIN, "schedule": "flat"}, "federated/schedules", "constant"),
            ({**ATTACK, "attack": "dlgg"}, "attacks", "dlg, idlg"),
            ({**ATTACK, "transform": "free"}, "attacks/adaptive", "free-scale, none"),
            ({**ATTACK, "metrics": ["mse", "msee"]}, "metrics", "mse, psnr"),
        ],
    )
    def test_unknown_plugins(self, block, room, names):
        message = refusal({"main": block})
        assert message.startswith(f"runs.main: unknown {room} plug-in '")
        assert message.endswith(f"': choose from {names}")

    def test_unknown_settings_of_a_plugin(self):
        message = refusal({"main": {**TRAIN, "defense": {"name": "lrp", "strenght": 1.0}}})
        assert message == "runs.main: defenses plug-in 'lrp' has no setting 'strenght': it accepts strength"

    def test_conditions_on_fields_that_the_block_does_not_have(self):
        override = {"when": {"modle": "mlp"}, "set": {"rounds": 9}}
        message = refusal({"main": {**TRAIN, "overrides": [override]}})
        assert message.startswith("runs.main.overrides: the block has no field 'modle': it has dataset, ")
        assert refusal({"main": {**TRAIN, "skip": [{"model.size": 1}]}}).startswith("runs.main.skip: the block has no")

    def test_variants_from_fields_that_the_block_does_not_have(self):
        message = refusal({"main": {**TRAIN, "variant": "seed={partition.sed}"}})
        assert message.startswith("runs.main.variant: the block has no field 'partition.sed'")

    def test_misspelt_overrides_and_grids(self):
        message = refusal({"main": {**TRAIN, "overrides": [{"if": {}, "set": {}}]}})
        assert message == "runs.main: overrides.0.if: unknown key; known keys are set, when"
        message = refusal({"main": {**TRAIN, "rate": {"grd": [[0.1]]}}})
        assert message == "runs.main.rate: grd: unknown key; known keys are grid"


@pytest.fixture
def table1(monkeypatch):
    """The runs of LRP table 1 at scale small; which plug-ins exist does not matter here."""
    monkeypatch.setattr(plugins, "check", lambda room, name, settings: None)
    return expand(load_items(ROOT / "config/items")["lrp/table1"], "small")


def test_table1_at_small_is_the_papers_grid_and_its_sensitivity(table1):
    assert Counter(run.block for run in table1) == {"table": 6, "draws": 40, "cnn-corners": 20}
    assert len({(run.block, run_id(run.spec)) for run in table1}) == 66
    decays = {(run.spec.model.name, run.spec.weight_decay) for run in table1}
    assert decays == {("cnn-small", 1e-4), ("mlp", 1e-4), ("logistic-regression", 2e-4)}


def test_a_sweep_of_table1_holds_all_rates_and_seeds(table1):
    sizes = {(run.block, len(run.spec.rates), len(run.spec.seeds)) for run in table1}
    assert sizes == {("table", 9, 3), ("draws", 9, 1), ("cnn-corners", 4, 1)}


def test_the_seeds_of_the_shard_draws_are_declared(table1):
    seeds = {run.block: set() for run in table1}
    for run in table1:
        seeds[run.block].add(run.spec.partition.seed)
    every = set(range(10))
    assert seeds == {"table": {0}, "draws": every, "cnn-corners": every}


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_every_item_that_runs_names_plugins_that_exist(scale):
    ready = [asked for asked in load_items(ROOT / "config/items").values() if asked.runs]
    assert len(ready) >= 3
    for asked in ready:
        assert expand(asked, scale), asked.key


@pytest.mark.usefixtures("rooms")
class TestLabels:
    """``row`` holds labels that no run knows."""

    def test_labels_are_axes_for_overrides_and_rows_but_not_part_of_the_run(self):
        block = {
            **TRAIN,
            "row": {"method": ["vanilla", "lrp"]},
            "overrides": [{"when": {"row.method": "lrp"}, "set": {"defense": "lrp"}}],
        }
        runs = runs_of(block)
        assert [(run.choice["row"]["method"], run.spec.defense.name) for run in runs] == [
            ("vanilla", "none"),
            ("lrp", "lrp"),
        ]
        plain = runs_of({**TRAIN, "defense": ["none", "lrp"]})
        assert [run_id(run.spec) for run in runs] == [run_id(run.spec) for run in plain]


@pytest.mark.usefixtures("rooms")
class TestAbsent:
    """What a scale cannot run is known, with the reason, and is not run."""

    def test_absent_blocks_are_not_run_but_listed(self):
        blocks = {"main": TRAIN, "other": {**TRAIN, "model": ["mlp", "cnn-small"]}}
        lacking = item(blocks, absent={"other": "data not here"})
        assert [run.block for run in expand(lacking, "small")] == ["main"]
        assert [(run.spec.model.name, reason) for run, reason in expand_absent(lacking, "small")] == [
            ("mlp", "data not here"),
            ("cnn-small", "data not here"),
        ]

    def test_unknown_blocks_are_refused(self):
        assert refusal({"main": TRAIN}, absent={"mian": ""}) == "scales.small: no block 'mian': there are main"


@pytest.mark.usefixtures("rooms")
def test_a_check_block_is_one_run_per_setting():
    runs = runs_of({"stage": "check", "check": {"name": "proof", "strength": [1.0, 2.0]}})
    assert [run.spec.check.settings["strength"] for run in runs] == [1.0, 2.0]
    assert {block_stage(run) for run in runs} == {"check"}
