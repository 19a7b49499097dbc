"""From run files to an item's result table, on runs whose numbers are written by the test."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.records.expand import expand
from leaklab.records.files import write_json, write_table
from leaklab.records.ids import run_folder, run_id
from leaklab.records.items import load_item
from leaklab.report.collect.item import collect

torch.set_num_threads(1)

ROOT = Path(__file__).parents[3]
TRAINING = """
paper: lrp
item: table1
number: 1
kind: table
title: Accuracy
renderer: table
runs:
  table:
    stage: train
    dataset: mnist
    partition: {name: two-clients, seed: 0}
    model: mlp
    defense: [none, lrp]
    rates: [[0.01, 0.02], [0.02, 0.01]]
    rounds: 3
    local_steps: 1
    batch_size: 4
    seeds: [1, 2, 3]
cells:
  row:
    perturbation: {from: defense.name, as: {none: false, lrp: true}}
    eta1: rates.0
    eta2: rates.1
  better: higher
  unit: "%"
scales:
  demo: {set: {dataset: digits}}
  small: {}
  paper: {}
"""
ATTACK = """
paper: lrp
item: figure2
number: 9
kind: figure
title: Attacks
renderer: image-grid
runs:
  attack:
    dataset: mnist
    images: {count: 3, seed: 0}
    model: dlg-lenet
    defense: [none, lrp]
    attack: dlg
    transform: [none, closed-form-scale, profiled-scale]
    iterations: 5
    metrics: [mse, psnr]
    skip:
      - {defense: none, transform: [closed-form-scale, profiled-scale]}
cells:
  row: {dataset: dataset, defense: defense.name}
  metrics:
    mse: {better: higher}
    psnr: {better: lower, unit: dB}
scales:
  small: {}
  paper: {}
"""
FIRST, SECOND = {"eta1": 0.01, "eta2": 0.02}, {"eta1": 0.02, "eta2": 0.01}
ACCURACIES = [90.0, 92.0, 97.0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for dataset, substitute in (("mnist", None), ("digits", "scikit-learn's digits")):
        write_json(Path(f"data/prepared/{dataset}.json"), {"name": dataset, "substitute": substitute})
    return tmp_path


def read_item(text, *changes):
    """Write the item's YAML with some texts replaced, and read it."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    name = "table1" if "item: table1" in text else "figure2"
    path = Path(f"config/items/lrp/{name}.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return load_item(path)


def rows_of(results, metric, **keys):
    found = [row for row in results.rows if row.metric == metric]
    return [row for row in found if all(row.row.get(key) == value for key, value in keys.items())]


def only(results, metric, **keys):
    (row,) = rows_of(results, metric, **keys)
    return row


class TestTraining:
    @staticmethod
    def sweep(spec, shift=0.0, diverged=()):
        """Three seeds per setting: the accuracies in the last round, those of the second setting 10 lower."""
        lines = []
        for setting, rates in enumerate(spec.rates):
            for place, seed in enumerate(spec.seeds):
                for number in (1, spec.rounds):
                    lines.append(
                        {
                            "replicate": place * len(spec.rates) + setting,
                            "seed": seed,
                            **{f"rate_{i}": rate for i, rate in enumerate(rates)},
                            "round": number,
                            "test_accuracy": ACCURACIES[place] - 10 * setting + shift if number > 1 else 1.0,
                            "test_loss": 0.5,
                            "diverged": number > 1 and (setting, place) in diverged,
                            "steps": number,
                        }
                    )
        write_table(run_folder(spec) / "sweep.parquet", pd.DataFrame(lines))

    def collected(self, item=None, scale="small", **sweep):
        item = item or read_item(TRAINING)
        for run in expand(item, scale):
            self.sweep(run.spec, shift=0.5 if run.spec.defense.name == "lrp" else 0.0, **sweep)
        return collect(item, scale)

    def test_each_setting_of_each_run_is_one_row_with_the_keys_of_the_item(self):
        results = self.collected()
        keys = [row.row for row in results.rows]
        assert keys == [{"perturbation": p, **rates} for p in (False, True) for rates in (FIRST, SECOND)]
        assert {(row.paper, row.item, row.metric) for row in results.rows} == {("lrp", "table1", "test_accuracy")}

    def test_mean_sample_deviation_and_number_of_seeds_after_the_last_round(self):
        results = self.collected()
        row = only(results, "test_accuracy", perturbation=False, **FIRST)
        assert row.value == pytest.approx(93)
        # deviations -3, -1, 4; two degrees of freedom
        assert row.std == pytest.approx(math.sqrt((9 + 1 + 16) / 2))
        assert row.n == 3
        assert 90 <= row.ci_low < 93 < row.ci_high <= 97
        assert only(results, "test_accuracy", perturbation=False, **SECOND).value == pytest.approx(83)
        assert only(results, "test_accuracy", perturbation=True, **FIRST).value == pytest.approx(93.5)

    def test_a_row_says_what_it_means_and_where_it_comes_from(self):
        item = read_item(TRAINING)
        runs = [run_id(run.spec) for run in expand(item, "small")]
        for row in self.collected(item).rows:
            assert (row.unit, row.better, row.attacker, row.variant) == ("%", "higher", "", "as-described")
            assert row.runs == (runs[row.row["perturbation"]],)

    def test_diverged_replicates_are_counted_and_left_out(self):
        results = self.collected(diverged={(0, 2)})
        row = only(results, "test_accuracy", perturbation=False, **FIRST)
        assert (row.value, row.std, row.n) == (pytest.approx(91), pytest.approx(math.sqrt(2)), 2)
        lost = only(results, "diverged_runs", perturbation=False, **FIRST)
        assert (lost.value, lost.n) == (1, 3)
        assert rows_of(results, "diverged_runs", **SECOND) == []
        assert only(results, "test_accuracy", perturbation=False, **SECOND).n == 3

    def test_a_setting_that_always_diverges_has_no_number(self):
        results = self.collected(diverged={(1, 0), (1, 1), (1, 2)})
        row = only(results, "test_accuracy", perturbation=True, **SECOND)
        assert (row.value, row.std, row.n) == (None, None, 0)
        assert only(results, "diverged_runs", perturbation=True, **SECOND).value == 3

    def test_a_setting_with_one_rate_for_all_clients(self):
        item = read_item(TRAINING, ("[[0.01, 0.02], [0.02, 0.01]]", "[[0.01], [0.02]]"), ("    eta2: rates.1\n", ""))
        values = {row.row["eta1"]: row.value for row in self.collected(item).rows if not row.row["perturbation"]}
        assert values == {0.01: pytest.approx(93), 0.02: pytest.approx(83)}

    def test_a_sweep_that_is_not_there_is_named(self):
        with pytest.raises(UserError, match=r"sweep\.parquet is missing: run snakemake"):
            collect(read_item(TRAINING), "small")

    def test_a_row_key_that_leads_nowhere_is_named(self):
        item = read_item(TRAINING, ("eta2: rates.1", "eta2: rates.2"))
        with pytest.raises(UserError, match=r"table1\.yaml: cells\.row: 'rates\.2' does not point into the runs"):
            self.collected(item)


class TestSubstitutes:
    @pytest.fixture
    def substitutes(self):
        def of(scale="small", *changes):
            results = TestTraining().collected(read_item(TRAINING, *changes), scale)
            (found,) = {row.substitutes for row in results.rows}
            return found

        return of

    def test_the_papers_own_setting_has_none(self, substitutes):
        assert substitutes("paper") == ()
        assert substitutes("small") == ()

    def test_another_dataset_is_named_with_the_one_it_stands_for(self, substitutes):
        assert substitutes("demo") == (
            "scikit-learn's digits",
            "digits in place of mnist",
            "reduced setting of scale demo",
        )

    @pytest.mark.parametrize(
        ("here", "meant"),
        [
            ("[digits, faces]", {"digits": "mnist", "faces": "cifar100"}),
            ("[mnist, faces]", {"mnist": None, "faces": "cifar100"}),
            ("digits", {"digits": "mnist, cifar100"}),
        ],
    )
    def test_datasets_stand_for_each_other_in_the_order_of_the_file(self, here, meant):
        write_json(Path("data/prepared/faces.json"), {"name": "faces"})
        changes = ("dataset: mnist", "dataset: [mnist, cifar100]"), ("{dataset: digits}", f"{{dataset: {here}}}")
        item = read_item(TRAINING, *changes, ("eta1: rates.0", "eta1: rates.0\n    dataset: dataset"))
        for row in TestTraining().collected(item, "demo").rows:
            named = [text for text in row.substitutes if " in place of " in text]
            stands_for = meant[row.row["dataset"]]
            assert named == ([f"{row.row['dataset']} in place of {stands_for}"] if stands_for else [])

    def test_fewer_rounds_are_named(self, substitutes):
        assert substitutes("small", ("  small: {}", "  small: {set: {rounds: 2}}")) == (
            "reduced setting of scale small",
        )

    def test_an_incomplete_dataset_is_one_at_paper_scale_too(self, substitutes):
        write_json(Path("data/prepared/mnist.json"), {"name": "mnist", "substitute": "a subset"})
        assert substitutes("paper") == ("a subset",)

    def test_diverged_counts_carry_them_too(self):
        results = TestTraining().collected(read_item(TRAINING), "demo", diverged={(0, 0)})
        assert all(len(row.substitutes) == 3 for row in results.rows)


IMAGES = [4, 8, 15]
# the paper's attacker, the closed form and the free scale; the median is lowest for the last, the mean for the second
ERRORS = {"none": [0.9, 0.7, 0.8], "closed-form-scale": [0.2, 0.2, 0.2], "profiled-scale": [0.1, 0.1, 5.0]}
OWN = "best-by-loss"


class TestAttacks:
    @staticmethod
    def scores(spec, errors):
        lines = []
        for trial, (image, error) in enumerate(zip(IMAGES, errors, strict=True)):
            for selection, value in ((OWN, error), ("oracle", error / 100), ("mean-image", 0.05)):
                lines.append((trial, image, trial % 2, selection, "mse", value))
                lines.append((trial, image, trial % 2, selection, "psnr", -10 * math.log10(value)))
            lines.append((trial, image, trial % 2, OWN, "label_correct", float(trial > 0)))
        write_json(run_folder(spec) / "cards.json", {"not_available": {"lpips_vgg": "no weights here"}})
        columns = ["trial", "image", "draw", "selection", "metric", "value"]
        write_table(run_folder(spec) / "scores.csv", pd.DataFrame(lines, columns=columns))

    def collected(self, errors=ERRORS, edits=(), **changes):
        item = read_item(ATTACK, *edits)
        for run in expand(item, "small"):
            name = run.spec.attack.transform.name
            self.scores(run.spec, changes.get(name.partition("-")[0], errors[name]))
        return collect(item, "small")

    def test_every_image_has_its_row_and_the_reader_gets_the_median(self):
        results = self.collected()
        keys = {"defense": "lrp", "dataset": "mnist"}
        own = [r for r in results.select(attackers=["paper"]).rows if "selection" not in r.row]
        own = [row for row in own if row.row["defense"] == "lrp"]
        single = {(row.row["image"], row.row["draw"]): row.value for row in own if row.metric == "mse"}
        assert single == {(4, 0): 0.9, (8, 1): 0.7, (15, 0): 0.8}
        assert all(row.n == 1 for row in own if row.metric == "mse")
        (median,) = [row for row in own if row.metric == "mse_median"]
        assert (median.row, median.value, median.n) == (keys, pytest.approx(0.8), 3)
        assert median.std == pytest.approx(0.1)

    def test_labels_have_a_share_in_place_of_a_median(self):
        results = self.collected().select(attackers=["paper"])
        share = only(results, "label_correct_mean", defense="lrp")
        assert (share.value, share.n) == (pytest.approx(2 / 3), 3)
        assert rows_of(results, "label_correct_median") == []

    def test_units_and_directions_are_those_of_the_metric(self):
        results = self.collected()
        for name in ("mse", "mse_median"):
            assert {(row.unit, row.better) for row in rows_of(results, name)} == {("", "higher")}
        for name in ("psnr", "psnr_median"):
            assert {(row.unit, row.better) for row in rows_of(results, name)} == {("dB", "lower")}

    def test_the_adaptive_attacker_is_the_transform_of_the_lower_median_and_is_named(self):
        results = self.collected().select(attackers=["knowing"])
        (worst,) = [row for row in rows_of(results, "mse_median") if "selection" not in row.row]
        assert (worst.row["transform"], worst.value) == ("profiled-scale", pytest.approx(0.1))
        (other,) = rows_of(results, "mse_median", transform="closed-form-scale")
        assert (other.row["selection"], other.value) == ("transform closed-form-scale", pytest.approx(0.2))

    def test_the_choice_follows_the_numbers_not_the_order(self):
        results = self.collected(closed=[0.05, 0.05, 0.05]).select(attackers=["knowing"])
        (worst,) = [row for row in rows_of(results, "mse_median") if "selection" not in row.row]
        assert worst.row["transform"] == "closed-form-scale"

    def test_another_attack_may_be_the_adaptive_attacker_and_is_named_by_its_block(self):
        other = "  knowing: {like: attack, attacker: adaptive, defense: lrp, attack: idlg, transform: none}\ncells:\n"
        item = read_item(ATTACK, ("cells:\n", other))
        for run in expand(item, "small"):
            name = run.spec.attack.transform.name
            self.scores(run.spec, [0.01] * 3 if run.block == "knowing" else ERRORS[name])
        results = collect(item, "small")
        (worst,) = [r for r in rows_of(results, "mse_median", transform="knowing") if "selection" not in r.row]
        assert (worst.attacker, worst.value) == ("knowing", pytest.approx(0.01))
        assert only(results, "mse_median", transform="profiled-scale").row["selection"] == "transform profiled-scale"

    def test_the_oracle_does_not_decide(self):
        """An oracle's error of zero must not make a transform the attacker that counts."""
        item = read_item(ATTACK)
        self.collected()
        (closed,) = [r.spec for r in expand(item, "small") if r.spec.attack.transform.name == "closed-form-scale"]
        path = run_folder(closed) / "scores.csv"
        table = pd.read_csv(path)
        table.loc[table.selection == "oracle", "value"] = 0.0
        write_table(path, table)
        adaptive = collect(item, "small").select(attackers=["knowing"])
        (worst,) = [row for row in rows_of(adaptive, "mse_median") if "selection" not in row.row]
        assert worst.row["transform"] == "profiled-scale"

    def test_oracle_and_references_stand_once_beside_the_attacker_that_counts(self):
        results = self.collected()
        for selection in ("oracle", "mean-image"):
            for metric in ("mse_median", "psnr_median"):
                found = rows_of(results, metric, selection=selection, defense="lrp")
                assert [row.attacker for row in found] == ["paper", "knowing"]
                assert found[1].row["transform"] == "profiled-scale"
        assert only(results, "mse_median", selection="oracle", defense="none").attacker == "paper"

    def test_without_a_defense_there_is_nothing_to_adapt_to(self):
        results = self.collected()
        assert {row.attacker for row in results.rows if row.row["defense"] == "none"} == {"paper"}

    def test_no_two_rows_are_the_same_number(self):
        rows = self.collected().rows
        names = [(row.metric, row.attacker, tuple(sorted(row.row.items()))) for row in rows]
        assert len(set(names)) == len(names)

    def test_scores_that_are_not_there_are_named(self):
        with pytest.raises(UserError, match=r"scores\.csv is missing: run snakemake"):
            collect(read_item(ATTACK), "small")

    def test_a_metric_that_cannot_be_computed_says_so(self):
        results = self.collected()
        for name in ("lpips_vgg", "lpips_vgg_median"):
            found = rows_of(results, name)
            assert {row.row["defense"] for row in found} == {"none", "lrp"}
            assert {(row.value, row.n, row.note) for row in found} == {(None, 0, "not available: no weights here")}

    def test_an_item_of_means_has_one_number_per_metric_under_the_name_in_print(self):
        cells = "  row: {dataset: dataset, defense: defense.name}\n"
        edit = cells, cells + "  over_images: mean\n  metric_as: {attack: {mse: error}}\n"
        results = self.collected(edits=[edit])
        assert {row.metric for row in results.rows} == {"error", "psnr", "label_correct", "lpips_vgg"}
        own = [row for row in rows_of(results, "error", defense="lrp") if "selection" not in row.row]
        printed, adaptive = (row for row in own)
        assert (printed.value, printed.n) == (pytest.approx(0.8), 3)
        assert printed.ci_low < 0.8 < printed.ci_high
        # the worst case is still the transform of the lowest median
        assert (adaptive.row["transform"], adaptive.value) == ("profiled-scale", pytest.approx(5.2 / 3))
        assert only(results, "lpips_vgg", defense="lrp").value is None

    def test_another_network_and_generator_are_named(self):
        write_json(Path("data/prepared/digits.json"), {"name": "digits", "shape": [1, 28, 28], "substitute": None})
        small = "scales:\n  small: {set: {model: mlp, generator.model: conditional-gan, generator.steps: 9}}"
        generator = "    generator: {dataset: digits, model: biggan-deep, steps: 0}\n    iterations: 5"
        edits = [("scales:\n  small: {}", small), ("    iterations: 5", generator), ("attack: dlg", "attack: ggl")]
        results = self.collected(edits=edits)
        (found,) = {row.substitutes for row in results.rows if row.value is not None}
        assert found == (
            "mlp in place of dlg-lenet",
            "conditional-gan (1x28x28, 9 steps on digits) in place of biggan-deep",
            "reduced setting of scale small",
        )


class TestArchitecture:
    @pytest.fixture(scope="class")
    def table4(self):
        return load_item(ROOT / "config/items/lrp/table4.yaml")

    @staticmethod
    def agreement(item):
        return {row.row["dataset"]: row.value for row in rows_of(collect(item, "small"), "agrees_with_print")}

    def test_the_attacked_networks_are_the_printed_ones(self, table4):
        assert self.agreement(table4) == {"mnist": 1, "cifar100": 1, "lfw": 1}

    @pytest.mark.parametrize("change", [{"convolutions": 3}, {"kernel_size": 3}, {"channels": 16}])
    def test_another_print_does_not_agree(self, table4, change):
        item = table4.model_copy(update={"expected": {**table4.expected, **change}})
        assert self.agreement(item) == {"mnist": 0, "cifar100": 0, "lfw": 0}

    def test_another_width_disagrees_where_it_is_printed(self, table4):
        outputs = {**table4.expected["outputs"], "cifar100": 10}
        item = table4.model_copy(update={"expected": {**table4.expected, "outputs": outputs}})
        assert self.agreement(item) == {"mnist": 1, "cifar100": 0, "lfw": 1}

    def test_each_layer_with_parameters_has_its_numbers(self, table4):
        results = collect(table4, "small")
        layers = list(dict.fromkeys(row.row["layer"] for row in rows_of(results, "parameters", dataset="mnist")))
        assert layers == ["conv1", "conv2", "conv3", "conv4", "fc"]
        place = {"dataset": "mnist", "layer": "conv1"}
        names = ("kernel_size", "stride", "padding", "inputs", "outputs", "parameters")
        # 12 filters of 5 x 5 and a bias each
        assert [only(results, name, **place).value for name in names] == [5, 2, 2, 1, 12, 12 * 25 + 12]
        place["layer"] = "fc"
        assert only(results, "parameters", **place).value == 12 * 7 * 7 * 10 + 10
        assert rows_of(results, "stride", **place) == []
