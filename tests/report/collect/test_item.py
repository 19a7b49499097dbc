"""From run files to an item's result table, on runs whose numbers are written by the test."""

import math
import statistics
from pathlib import Path

import pandas as pd
import pytest
import torch

from leaklab.items.expand import expand
from leaklab.items.items import load_item
from leaklab.metrics.silence import silence_line
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_table
from leaklab.report.collect.item import collect
from leaklab.specs.base import run_folder, run_id

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
TRAINED_BLOCK = """runs:
  start:
    stage: train
    row: {draw: [0, 1]}
    dataset: mnist
    partition: {name: iid, clients: 2, seed: 0}
    model: dlg-lenet
    rates: [[0.1]]
    rounds: 1
    until: 0
    local_steps: 1
    batch_size: 1
    seeds: [0]
    overrides: [{when: {row.draw: 1}, set: {partition.seed: 1, seeds: [1]}}]
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
        # three seeds are too few for an interval
        assert (row.n, row.clusters, row.ci_low, row.ci_high) == (3, 3, None, None)
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


OWN = "best-by-loss"
IMAGES = [4, 8, 15, 16, 23, 42]
# the paper's attack, the closed form and the free scale; by the median the last is strongest, by the mean the second
ERRORS = {
    "none": [0.9, 0.7, 0.8, 0.8, 0.6, 0.5],
    "closed-form-scale": [0.2] * 6,
    "profiled-scale": [0.1, 0.1, 0.1, 0.1, 5.0, 5.0],
}
UNDEFENDED = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
MEAN_IMAGE = [0.25, 0.26, 0.27, 0.27, 0.28, 0.29]
ROW = "  row: {dataset: dataset, defense: defense.name}\n"
MEANS = [
    (ROW, ROW + "  over_images: mean\n  metric_as: {attack: {mse: error}}\n"),
    ("    mse: {better: higher}\n", "    error: {better: higher}\n"),
]
SKIP = ("    skip:\n      - {defense: none, transform: [closed-form-scale, profiled-scale]}\n", "")


def own_rows(results, metric, attacker, **keys):
    rows = rows_of(results, metric, **keys)
    return [row for row in rows if row.attacker == attacker and not row.aside]


class TestAttacks:
    @staticmethod
    def scores(spec, errors, batch=1, references=True):
        lines = []
        for place, (image, error) in enumerate(zip(IMAGES, errors, strict=True)):
            kinds = {OWN: error, "oracle": error / 100}
            if references:
                kinds |= {"mean-image": MEAN_IMAGE[place], "same-class-image": 2.0}
            for selection, value in kinds.items():
                lines.append((place // batch, image, 0, selection, "mse", value))
                lines.append((place // batch, image, 0, selection, "psnr", -10 * math.log10(value)))
            lines.append((place // batch, image, 0, OWN, "label_correct", float(place > 1)))
        facts = {"not_available": {"lpips_vgg": "no weights here"}, "trials": len(errors) // batch}
        write_json(run_folder(spec) / "cards.json", facts)
        columns = ["trial", "image", "draw", "selection", "metric", "value"]
        write_table(run_folder(spec) / "scores.csv", pd.DataFrame(lines, columns=columns))

    def collected(self, errors=ERRORS, edits=(), batch=1, by_block=None, **changes):
        item = read_item(ATTACK, *edits)
        for run in expand(item, "small"):
            name = run.spec.attack.transform.name
            own = changes.get(name.partition("-")[0], errors[name])
            own = UNDEFENDED if run.spec.attack.capture.defense.name == "none" else own
            self.scores(run.spec, (by_block or {}).get(run.block, own), batch)
        return collect(item, "small")

    def test_every_image_has_its_row_and_the_reader_gets_the_median(self):
        results = self.collected()
        single = own_rows(results, "mse", "paper", defense="lrp")
        assert {row.row["image"]: row.value for row in single} == dict(zip(IMAGES, ERRORS["none"], strict=True))
        assert {(row.n, row.clusters) for row in single} == {(1, 1)}
        (median,) = own_rows(results, "mse_median", "paper", defense="lrp")
        assert (median.row, median.value) == ({"defense": "lrp", "dataset": "mnist"}, pytest.approx(0.75))
        assert (median.n, median.clusters, median.ci_low, median.ci_high) == (6, 6, 0.5, 0.9)

    def test_the_images_of_an_update_are_one_cluster(self):
        results = self.collected(batch=2)
        (median,) = own_rows(results, "mse_median", "paper", defense="lrp")
        # medians of the three updates 0.8, 0.8, 0.55
        assert (median.value, median.n, median.clusters) == (pytest.approx(0.8), 6, 3)
        assert (median.ci_low, median.ci_high) == (None, None)

    def test_runs_that_differ_in_the_seed_of_their_images_are_one_attack(self):
        item = read_item(ATTACK, ("seed: 0}", "seed: [0, 1]}"))
        for run in expand(item, "small"):
            self.scores(run.spec, ERRORS[run.spec.attack.transform.name])
            path = run_folder(run.spec) / "scores.csv"
            table = pd.read_csv(path)
            seed = run.spec.attack.capture.images.seed
            values = table["value"].where(table["metric"] == "label_correct", table["value"] * (1 + seed))
            write_table(path, table.assign(image=table["image"] + 1000 * seed, value=values))
        results = collect(item, "small")
        (median,) = own_rows(results, "mse_median", "paper", defense="lrp")
        assert (median.n, median.clusters, len(median.runs)) == (12, 12, 2)
        both = [*ERRORS["none"], *(2 * value for value in ERRORS["none"])]
        assert median.value == pytest.approx(statistics.median(both))
        single = own_rows(results, "mse", "paper", defense="lrp")
        assert sorted(row.value for row in single) == pytest.approx(sorted(both))
        (strongest,) = own_rows(results, "mse_median", "knowing", defense="lrp")
        assert strongest.n == 12

    def test_runs_of_trainings_with_other_seeds_and_deals_are_one_attack(self):
        trained = [
            ("runs:\n", TRAINED_BLOCK),
            ("    images: {count: 3, seed: 0}\n", "    row: {draw: [0, 1]}\n    images: {clients: [0, 1]}\n"),
            ("    model: dlg-lenet\n    defense: [none, lrp]\n", "    state: {block: start, round: 0}\n"),
            ("    transform: [none, closed-form-scale, profiled-scale]\n", ""),
            ("{dataset: dataset, defense: defense.name}", "{dataset: dataset}"),
            ("    skip:\n      - {defense: none, transform: [closed-form-scale, profiled-scale]}\n", ""),
        ]
        item = read_item(ATTACK, *trained)
        trainings, runs = ([run for run in expand(item, "small") if run.block == name] for name in ("start", "attack"))
        for run in trainings:
            TestTraining.sweep(run.spec)
        assert len({run.spec.attack.capture.state.train.seeds for run in runs}) == len(runs) == 2
        for place, run in enumerate(runs):
            self.scores(run.spec, [1.0 + place] * 6)
            path = run_folder(run.spec) / "scores.csv"
            table = pd.read_csv(path)
            write_table(path, table.assign(image=table["image"] + 1000 * place))
        found = [row for row in collect(item, "small").rows if row.metric == "mse_median" and row.attacker == "paper"]
        (row,) = [row for row in found if not row.aside]
        # clients of one training share its weights, so they do not count alone
        assert (row.value, row.n, row.clusters, len(row.runs)) == (1.5, 12, 2, 2)

    @staticmethod
    def without(spec, silent):
        """Leave out what updates that say nothing have no value for, as ``score_attack`` does."""
        path = run_folder(spec) / "scores.csv"
        table = pd.read_csv(path)
        counted = pd.DataFrame([silence_line(silent, [0] * len(IMAGES))])
        write_table(path, pd.concat([table[~table.trial.isin(silent)], counted], ignore_index=True))

    @pytest.mark.parametrize("defense", ["none", "lrp"])
    @pytest.mark.parametrize("silent", [[0], [1, 4], range(6)])
    def test_updates_that_say_nothing_are_counted_and_never_a_protection(self, defense, silent):
        item = read_item(ATTACK, ("renderer: image-grid\n", "renderer: image-grid\nheadline: mse\n"))
        for run in expand(item, "small"):
            of = run.spec.attack.capture.defense.name
            self.scores(run.spec, UNDEFENDED if of == "none" else ERRORS[run.spec.attack.transform.name])
        assert rows_of(collect(item, "small"), "protection_left")
        for run in expand(item, "small"):
            if run.spec.attack.capture.defense.name == defense:
                self.without(run.spec, list(silent))
        results = collect(item, "small")
        # a missing image is no protection: it is told of the others, where there are any
        told = {6 - len(silent)} if len(silent) < 6 else set()
        assert {row.n for row in rows_of(results, "protection_left")} == told
        (counted,) = own_rows(results, "no_information", "paper", defense=defense)
        assert (counted.value, counted.n) == (len(silent), 6)
        medians = own_rows(results, "mse_median", "paper", defense=defense)
        assert [row.n for row in medians] == ([6 - len(silent)] if len(silent) < 6 else [])
        assert all(row.value is None or math.isfinite(row.value) for row in results.rows)

    def test_a_replicate_that_says_nothing_does_not_end_the_others(self):
        item = read_item(ATTACK, ("seed: 0}", "seed: [0, 1, 2]}"))
        for run in expand(item, "small"):
            self.scores(run.spec, ERRORS[run.spec.attack.transform.name])
            if run.spec.attack.capture.images.seed == 0:
                self.without(run.spec, list(range(6)))
        results = collect(item, "small")
        (median,) = own_rows(results, "mse_median", "paper", defense="lrp")
        assert (median.n, len(median.runs)) == (12, 3)

    def test_an_attack_without_any_guess_of_a_label_has_no_share_of_them(self):
        item = read_item(ATTACK)
        for run in expand(item, "small"):
            self.scores(run.spec, ERRORS[run.spec.attack.transform.name])
            path = run_folder(run.spec) / "scores.csv"
            table = pd.read_csv(path)
            if run.spec.attack.transform.name == "none":
                write_table(path, table[table.metric != "label_correct"])
        results = collect(item, "small")
        (share,) = own_rows(results, "label_correct_mean", "paper", defense="lrp")
        assert (share.value, share.n, share.note) == (None, 0, "not guessed: the attack names no label")
        assert own_rows(results, "mse_median", "paper", defense="lrp")

    def test_of_a_single_update_the_draws_are_the_clusters(self):
        item = read_item(ATTACK)
        for run in expand(item, "small"):
            self.scores(run.spec, ERRORS[run.spec.attack.transform.name])
            path = run_folder(run.spec) / "scores.csv"
            table = pd.read_csv(path)
            write_table(path, table.assign(draw=table["trial"], image=4))
        (median,) = own_rows(collect(item, "small"), "mse_median", "paper", defense="lrp")
        assert (median.n, median.clusters) == (6, 6)

    def test_labels_have_a_share_in_place_of_a_median(self):
        results = self.collected()
        (share,) = own_rows(results, "label_correct_mean", "paper", defense="lrp")
        assert (share.value, share.n) == (pytest.approx(2 / 3), 6)
        assert rows_of(results, "label_correct_median") == []

    def test_units_and_directions_are_those_of_the_metric(self):
        results = self.collected()
        for name in ("mse", "mse_median"):
            assert {(row.unit, row.better) for row in rows_of(results, name)} == {("", "higher")}
        for name in ("psnr", "psnr_median"):
            assert {(row.unit, row.better) for row in rows_of(results, name)} == {("dB", "lower")}

    def test_the_knowing_attacker_is_the_strongest_of_all_and_is_named(self):
        results = self.collected()
        (strongest,) = own_rows(results, "mse_median", "knowing", defense="lrp")
        assert (strongest.row["by"], strongest.value) == ("dlg, profiled scale", pytest.approx(0.1))
        single = own_rows(results, "mse", "knowing", defense="lrp")
        assert [row.value for row in single] == ERRORS["profiled-scale"]

    def test_each_statistic_and_metric_has_its_own_strongest(self):
        (strongest,) = own_rows(self.collected(edits=MEANS), "error", "knowing", defense="lrp")
        assert (strongest.row["by"], strongest.value) == ("dlg, closed form scale", pytest.approx(0.2))
        # in dB the mean is of logarithms
        (strongest,) = own_rows(self.collected(edits=MEANS), "psnr", "knowing", defense="lrp")
        assert strongest.row["by"] == "dlg, closed form scale"

    def test_the_papers_attack_is_one_of_them_and_its_images_are_not_repeated(self):
        results = self.collected(none=[0.001] * 6)
        (strongest,) = own_rows(results, "mse_median", "knowing", defense="lrp")
        (paper,) = own_rows(results, "mse_median", "paper", defense="lrp")
        assert (strongest.row["by"], strongest.value, strongest.runs) == ("dlg", paper.value, paper.runs)
        assert own_rows(results, "mse", "knowing", defense="lrp") == []
        (alone,) = own_rows(results, "mse_median", "knowing", defense="none")
        assert alone.row["by"] == "dlg"

    def test_of_equal_ones_it_is_the_papers(self):
        results = self.collected(none=[0.1] * 6, closed=[0.1] * 6, profiled=[0.1] * 6)
        (strongest,) = own_rows(results, "mse_median", "knowing", defense="lrp")
        assert strongest.row["by"] == "dlg"

    def test_a_blind_attack_stands_beside_the_papers(self):
        blocks = (
            "  blind: {like: attack, attacker: blind, defense: lrp, transform: none}\n"
            "  attack-lrp: {like: attack, attacker: paper, defense: lrp, transform: closed-form-scale}\ncells:\n"
        )
        edits = [("defense: [none, lrp]", "defense: none"), ("cells:\n", blocks),
                 ("    transform: [none, closed-form-scale, profiled-scale]\n", "    transform: none\n"),
                 SKIP]  # fmt: skip
        results = self.collected(edits=edits)
        levels = {a: own_rows(results, "mse_median", a, defense="lrp")[0].value for a in ("paper", "blind", "knowing")}
        assert levels == {"paper": 0.2, "blind": 0.75, "knowing": 0.2}
        assert len(own_rows(results, "mse", "blind", defense="lrp")) == 6

    def test_two_attacks_of_the_paper_in_one_cell_are_refused(self):
        edits = [("cells:\n", "  again: {like: attack, attack: idlg, transform: none}\ncells:\n")]
        with pytest.raises(UserError, match=r"2 attacks of the attacker 'paper' \(runs.attack, runs.again\)"):
            self.collected(edits=edits)

    def test_every_attack_that_was_tried_has_its_summary_and_nothing_more(self):
        results = self.collected()
        tried = [row for row in results.rows if "tried" in row.row and row.row["defense"] == "lrp"]
        assert {row.row["tried"] for row in tried} == {"dlg", "dlg, closed form scale", "dlg, profiled scale"}
        assert {row.metric for row in tried} == {"mse_median", "psnr_median", "label_correct_mean"}
        assert {row.attacker for row in tried} == {""}
        (closed,) = rows_of(results, "mse_median", tried="dlg, closed form scale")
        assert closed.value == pytest.approx(0.2)

    def test_attacks_of_one_name_are_told_apart_by_their_blocks(self):
        other = "  longer: {like: attack, attacker: knowing, defense: lrp, transform: none, iterations: 9}\ncells:\n"
        results = self.collected(edits=[("cells:\n", other)], by_block={"longer": [0.01] * 6})
        (strongest,) = own_rows(results, "mse_median", "knowing", defense="lrp")
        assert (strongest.row["by"], strongest.value) == ("dlg (longer)", pytest.approx(0.01))
        assert rows_of(results, "mse_median", tried="dlg (attack)", defense="lrp")

    def test_attacks_of_one_name_are_told_apart_by_their_settings_where_all_state_them(self):
        one = (
            "{like: attack, attacker: knowing, defense: lrp, transform: none, attack: {name: ig, total_variation: %s}}"
        )
        blocks = f"  smooth: {one % 0.1}\n  smoother: {one % 0.01}\ncells:\n"
        results = self.collected(edits=[("cells:\n", blocks)])
        tried = {row.row["tried"] for row in results.rows if row.row.get("tried", "").startswith("ig")}
        assert tried == {"ig (total variation 0.1)", "ig (total variation 0.01)"}

    def test_the_difference_of_the_two_attackers_is_in_pairs(self):
        results = self.collected()
        (row,) = rows_of(results, "mse_median", defense="lrp", difference="knowing - paper")
        # image by image 0.1 against 0.9, 0.7, 0.8, 0.8 and 5.0 against 0.6, 0.5
        assert row.value == pytest.approx(-0.65)
        assert (row.ci_low, row.ci_high) == pytest.approx((-0.8, 4.5))
        assert not rows_of(results, "mse_median", defense="none", difference="knowing - paper")

    def test_what_an_attacker_has_over_the_best_guess_is_in_pairs(self):
        results = self.collected()
        found = {("none", "paper"): UNDEFENDED, ("lrp", "paper"): ERRORS["none"]}
        found["lrp", "knowing"] = ERRORS["profiled-scale"]
        for (defense, attacker), errors in found.items():
            (row,) = [
                row
                for row in rows_of(results, "mse_median", defense=defense, difference="attack - best guess")
                if row.attacker == attacker
            ]
            pairs = sorted(own - guess for own, guess in zip(errors, MEAN_IMAGE, strict=True))
            assert row.value == pytest.approx((pairs[2] + pairs[3]) / 2)
            assert (row.n, row.clusters) == (6, 6)

    def test_what_a_defense_changes_is_in_pairs(self):
        results = self.collected()
        rows = rows_of(results, "mse_median", defense="lrp", difference="defended - undefended")
        assert [row.attacker for row in rows] == ["paper", "knowing"]
        (paper, knowing) = rows
        undefended = {row.row["image"]: row.value for row in own_rows(results, "mse", "paper", defense="none")}
        defended = {row.row["image"]: row.value for row in own_rows(results, "mse", "paper", defense="lrp")}
        changes = sorted(defended[image] - undefended[image] for image in defended)
        assert paper.value == pytest.approx((changes[2] + changes[3]) / 2)
        assert knowing.value < paper.value
        assert not rows_of(results, "mse_median", defense="none", difference="defended - undefended")

    def test_the_oracle_does_not_decide(self):
        """An oracle's error of zero must not make a transform the attacker that counts."""
        item = read_item(ATTACK)
        self.collected()
        (closed,) = [r.spec for r in expand(item, "small") if r.spec.attack.transform.name == "closed-form-scale"]
        path = run_folder(closed) / "scores.csv"
        table = pd.read_csv(path)
        table.loc[table.selection == "oracle", "value"] = 0.0
        write_table(path, table)
        (strongest,) = own_rows(collect(item, "small"), "mse_median", "knowing", defense="lrp")
        assert strongest.row["by"] == "dlg, profiled scale"

    def test_references_stand_once_per_cell_and_the_oracle_beside_the_paper(self):
        results = self.collected()
        for selection, attacker in (("oracle", "paper"), ("mean-image", ""), ("same-class-image", "")):
            for metric in ("mse_median", "psnr_median"):
                found = rows_of(results, metric, selection=selection, defense="lrp")
                assert [row.attacker for row in found] == [attacker]
                assert found[0].clusters == 6
            assert rows_of(results, "mse", selection=selection) == []

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
        results = self.collected(edits=MEANS)
        assert {row.metric for row in results.rows} == {"error", "psnr", "label_correct", "lpips_vgg"}
        (paper,) = own_rows(results, "error", "paper", defense="lrp")
        assert (paper.value, paper.n) == (pytest.approx(4.3 / 6), 6)
        assert paper.ci_low < 4.3 / 6 < paper.ci_high
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


class TestProtection:
    HEADLINE = ("renderer: image-grid\n", "renderer: image-grid\nheadline: mse\n")

    def rows(self, *edits, **changes):
        results = TestAttacks().collected(edits=[self.HEADLINE, *edits], **changes)
        return {row.attacker: row for row in rows_of(results, "protection_left")}

    def test_zero_is_no_defense_and_a_hundred_the_best_reference(self):
        # medians: undefended 0.035, mean image 0.27, another image of the class 2.0
        found = self.rows(none=[0.27] * 6, closed=[0.3] * 6, profiled=UNDEFENDED)
        assert found["paper"].value == pytest.approx(100)
        assert found["knowing"].value == 0
        assert (found["knowing"].row["by"], found["knowing"].row["defense"]) == ("dlg, profiled scale", "lrp")
        assert (found["paper"].unit, found["paper"].better, found["paper"].clusters) == ("%", "higher", 6)

    def test_it_is_not_clipped_and_has_its_interval_in_pairs(self):
        found = self.rows()["paper"]
        assert found.value == pytest.approx(100 * (0.75 - 0.035) / (0.27 - 0.035))
        assert found.ci_low < found.value < found.ci_high

    def test_another_headline_changes_nothing_where_the_error_was_measured(self):
        by_decibels = ("renderer: image-grid\n", "renderer: image-grid\nheadline: psnr\n")
        results = TestAttacks().collected(edits=[by_decibels])
        (found,) = [row for row in rows_of(results, "protection_left") if row.attacker == "paper"]
        assert found.value == self.rows()["paper"].value

    def test_an_item_without_a_headline_has_none(self):
        assert rows_of(TestAttacks().collected(), "protection_left") == []

    def test_where_the_undefended_attack_fails_it_has_no_value_and_says_why(self, monkeypatch):
        monkeypatch.setitem(globals(), "UNDEFENDED", [0.5] * 6)
        found = self.rows()
        assert {row.value for row in found.values()} == {None}
        assert found["paper"].note.startswith("no premise: no protection can be told")

    @pytest.mark.parametrize(("reference", "expected"), [("none", {"hyperfl"}), ("fedavg", set())])
    def test_a_method_without_a_defense_is_held_against_the_row_called_none(self, reference, expected):
        # HyperFL adds nothing to its message: what it hides, it hides by its shape
        methods = [
            ("    defense: [none, lrp]\n", f"    defense: none\n    row: {{method: {reference}}}\n"),
            ("cells:\n", "  hidden: {like: attack, row.method: hyperfl, iterations: 6}\ncells:\n"),
            ("{dataset: dataset, defense: defense.name}", "{method: row.method}"),
        ]
        results = TestAttacks().collected(edits=[self.HEADLINE, *methods], by_block={"hidden": [0.27] * 6})
        found = rows_of(results, "protection_left")
        assert {row.row["method"] for row in found} == expected
        assert all(row.value == pytest.approx(100) for row in found)
        changed = [
            row for row in rows_of(results, "mse_median") if row.row.get("difference") == "defended - undefended"
        ]
        assert {row.row["method"] for row in changed} == expected

    def test_other_images_are_no_partner(self):
        assert (
            self.rows(("cells:\n", "    overrides: [{when: {defense: none}, set: {images.seed: 3}}]\ncells:\n")) != {}
        )
        item = read_item(ATTACK, self.HEADLINE)
        (none,) = [run.spec for run in expand(item, "small") if run.spec.attack.capture.defense.name == "none"]
        TestAttacks().collected(edits=[self.HEADLINE])
        path = run_folder(none) / "scores.csv"
        table = pd.read_csv(path)
        write_table(path, table.assign(image=table["image"] + 1))
        assert rows_of(collect(item, "small"), "protection_left") == []


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
