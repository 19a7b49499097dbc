"""What the pages say about an item beside its numbers: chain, cost, metric cards and settings."""

from pathlib import Path

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import Item, load_items
from leaklab.planning.plan import Job, build_plan
from leaklab.planning.resources import cost
from leaklab.records.files import write_json
from leaklab.records.ledger import Entry, Ledger
from leaklab.report.numbers.results import ResultTable
from leaklab.report.site.drawings import partition_pictures
from leaklab.report.site.headlines import setting_lines
from leaklab.report.site.links import chain_of
from leaklab.report.site.publication import ACCURACY, cards_of, cost_of
from leaklab.report.site.recipes import Recipe, absent_records
from leaklab.report.site.site_data import Evidence, _page, _plain, _settings
from leaklab.specs.training import PartitionSpec

ROOT = Path(__file__).parents[3]
RUNS = "results/runs"
DATA = "data/prepared/digits.safetensors"
RAW = [{"path": name, "sha256": name * 8, "source": "mirror"} for name in ("b.gz", "a.gz")]


def entry(rule, record, inputs, *outputs, facts=None, **more):
    content = {
        "rule": rule,
        "inputs": dict.fromkeys(inputs, "0"),
        "outputs": {name: f"hash of {name}" for name in outputs},
        "spec": {},
        "code": "",
        "commit": "c" * 40,
        "dirty": False,
        "facts": facts or {},
        "wall_seconds": 10.0,
        "cpu_seconds": 8.0,
        "peak_memory_mb": 100.0,
        "device": "cpu",
        **more,
    }
    return Entry(Path(record), content)


def attack_ledger():
    """Figure and table of two attacks on one capture of one dataset, and a training that belongs to neither."""
    entries = [
        entry("fetch_dataset", "data/prepared/digits.run.json", [], DATA, facts={"sources": RAW}, commit=None),
        entry("capture_updates", f"{RUNS}/capture/c/run.json", [DATA], f"{RUNS}/capture/c/truth"),
        entry("train_federated", f"{RUNS}/train/t/run.json", [DATA], f"{RUNS}/train/t/sweep.parquet"),
    ]
    for name in ("dlg", "idlg"):
        found, scores = f"{RUNS}/attack/{name}/reconstruction", f"{RUNS}/score/{name}/scores.csv"
        capture = f"{RUNS}/capture/c/truth"
        entries.append(entry("run_attack", f"{RUNS}/attack/{name}/run.json", [capture], found, device="cuda"))
        entries.append(entry("score_attack", f"{RUNS}/score/{name}/run.json", [found, capture, DATA], scores))
    scores = [f"{RUNS}/score/{name}/scores.csv" for name in ("dlg", "idlg")]
    entries.append(entry("make_table", "results/small/lrp/figure2.run.json", scores, "results/small/lrp/figure2.csv"))
    table = "results/small/lrp/figure2.csv"
    entries.append(
        entry("make_figure", "figures/small/lrp/figure2.run.json", ["config/x.yaml", table], FIGURE, dirty=True)
    )
    return Ledger(Path(), tuple(entries))


FIGURE = "figures/small/lrp/figure2.png"


class TestChain:
    def test_the_stages_come_in_the_order_of_the_road_back(self):
        links = chain_of(attack_ledger(), FIGURE)
        stages = [link.stage for link in links]
        assert stages == ["figure", "table", "scores", "attack", "capture", "dataset", "dataset", "dataset"]

    def test_further_runs_of_a_stage_are_counted(self):
        others = {link.stage: link.others for link in chain_of(attack_ledger(), FIGURE)[:6]}
        assert others == {"figure": 0, "table": 0, "scores": 1, "attack": 1, "capture": 0, "dataset": 0}

    def test_a_link_names_file_run_commit_and_hash(self):
        figure, table, scores, *_ = chain_of(attack_ledger(), FIGURE)
        assert (figure.name, figure.run, figure.commit, figure.dirty) == (FIGURE, "", "c" * 40, True)
        assert (table.dirty, table.run) == (False, "")
        assert scores.run in ("dlg", "idlg")
        assert scores.sha256 == f"hash of {scores.name}"

    def test_the_raw_files_come_last_each_once(self):
        *_, first, second = chain_of(attack_ledger(), FIGURE)
        assert (first.name, first.sha256) == ("raw file a.gz", "a.gz" * 8)
        assert (second.name, second.commit, second.others) == ("raw file b.gz", "", 0)

    def test_a_file_without_a_record_has_no_chain(self):
        assert chain_of(attack_ledger(), "nothing.png") == ()

    def test_what_belongs_to_another_item_is_not_behind_this_one(self):
        entries = attack_ledger().behind(FIGURE).entries
        assert entries[0].rule == "make_figure"
        assert len(entries) == len({entry.path for entry in entries}) == 8
        assert "train_federated" not in {entry.rule for entry in entries}


def test_costs_are_summed_and_the_largest_job_counts_for_memory():
    jobs = [
        entry("a", "1", [], wall_seconds=10.0, cpu_seconds=4.0, peak_memory_mb=300.0, facts={"evaluations": 300}),
        entry("b", "2", [], wall_seconds=2.5, cpu_seconds=2.0, peak_memory_mb=900.0, device="cuda",
              facts={"evaluations": 100}),
        entry("c", "3", [], wall_seconds=0.5, cpu_seconds=0.25, peak_memory_mb=20.0),
    ]  # fmt: skip
    cost = cost_of(jobs)
    assert (cost.jobs, cost.wall_seconds, cost.cpu_seconds) == (3, 13.0, 6.25)
    assert (cost.peak_memory_mib, cost.devices, cost.evaluations) == (900.0, ("cpu", "cuda"), 400)


def test_the_pieces_of_a_long_job_are_paid_too(tmp_path):
    job = entry("a", "1", [], wall_seconds=10.0, cpu_seconds=4.0, peak_memory_mb=300.0)
    for number in range(2):
        piece = {"wall_seconds": 100.0, "cpu_seconds": 90.0, "peak_memory_mb": 700.0}
        write_json(tmp_path / job.path.parent / f"piece-{number}.json", piece)
    cost = cost_of([job], tmp_path)
    assert (cost.jobs, cost.wall_seconds, cost.cpu_seconds, cost.peak_memory_mib) == (1, 210.0, 184.0, 700.0)


def test_each_job_behind_an_item_is_paid_once():
    cost = cost_of(attack_ledger().behind(FIGURE).entries)
    assert (cost.jobs, cost.wall_seconds, cost.devices) == (8, 80.0, ("cpu", "cuda"))


MSE = {"name": "mse", "domain": "[0, 1]", "peak": 1.0, "network": "", "window": None, "clamped": True}


class TestCards:
    @pytest.fixture
    def scored(self, tmp_path):
        def entry_with(name, metrics, not_available=None):
            path = tmp_path / name / "cards.json"
            write_json(path, {"metrics": metrics, "not_available": not_available or {}, "trials": 3})
            return entry("score_attack", f"{name}/run.json", [], f"{name}/scores.csv", str(path))

        return entry_with

    def test_a_card_shows_what_is_said_and_nothing_empty(self, scored):
        (card,) = cards_of([scored("a", {"mse": MSE})])
        assert card.metric == "mse"
        assert card.facts == {"domain": "[0, 1]", "peak": "1.0", "clamped": "True"}

    def test_the_card_of_a_metric_is_shown_once(self, scored):
        cards = cards_of([scored(name, {"mse": MSE}) for name in ("a", "b", "c")])
        assert [card.metric for card in cards] == ["mse"]

    def test_a_metric_that_could_not_be_had_says_why(self, scored):
        cards = cards_of([scored("a", {"mse": MSE}, {"lpips_vgg": "no weights here"})])
        assert {card.metric: card.facts for card in cards}["lpips_vgg"] == {"not available": "no weights here"}
        assert len(cards) == 2

    def test_training_brings_the_card_of_accuracy(self):
        trained = [entry("train_federated", f"{n}/run.json", [], f"{n}/sweep.parquet") for n in "ab"]
        assert cards_of(trained) == (ACCURACY,)

    def test_other_steps_bring_none(self):
        assert cards_of([entry("make_table", "run.json", [], "results/cards.json")]) == ()


def test_settings_read_as_words():
    block = {
        "model": ["mlp", "cnn-small"],
        "attack": ["idlg", {"name": "dlg", "matched": 1e-8, "history": 9}],
        "partition": {"name": "two-clients", "seed": 0},
        "overrides": [
            {"when": {"defense": "none"}, "set": {"draws": 1, "client_weight": 1.0}},
            {"when": {"model": ["mlp", "cnn-small"]}, "set": {"rounds": 9}},
        ],
        "skip": [{"defense": "none", "transform": ["a", "b"]}, {"dataset": "lfw"}],
        "rounds": 3,
    }
    assert _plain(block) == {
        "model": ["mlp", "cnn-small"],
        "attack": ["idlg", "dlg (matched 1e-08, history 9)"],
        "partition.name": "two-clients",
        "partition.seed": 0,
        "if defense none": "draws 1, client_weight 1.0",
        "if model mlp or cnn-small": "rounds 9",
        "left out": "defense none, transform a or b; dataset lfw",
        "rounds": 3,
    }


def item(runs, scales, **fields):
    values = {"paper": "lrp", "item": "table1", "title": "A title", "number": 1, "kind": "table", "renderer": "table"}
    return Item.model_validate({**values, **fields, "runs": runs, "scales": scales})


BLOCKS = {
    "main": {"stage": "train", "partition": {"name": "two-clients", "seed": 0}, "rounds": 100, "seeds": [1, 2]},
    "draws": {"like": "main", "partition.seed": [0, 1, 2]},
}


class TestSettings:
    def test_each_scale_shows_its_own_values_and_why(self):
        small = {"note": "fewer rounds", "set": {"rounds": 10, "partition.seed": 4}}
        shown = _settings(item(BLOCKS, {"small": small, "paper": {}}))
        assert list(shown) == ["paper", "small"]
        main = {"stage": "train", "partition.name": "two-clients", "seeds": [1, 2]}
        assert shown["paper"]["main"] == {**main, "partition.seed": 0, "rounds": 100}
        assert shown["small"]["main"] == {**main, "partition.seed": 4, "rounds": 10}
        assert (shown["paper"]["why"], shown["small"]["why"]) == ("", "fewer rounds")

    def test_a_block_that_is_like_another_shows_what_it_changes(self):
        scales = {"small": {"set": {"rounds": 10}, "blocks": {"draws": {"partition.seed": [0, 1]}}}, "paper": {}}
        shown = _settings(item(BLOCKS, scales))
        assert shown["paper"]["draws"] == {"like": "main", "partition.seed": [0, 1, 2]}
        assert shown["small"]["draws"] == {"like": "main", "partition.seed": [0, 1]}

    def test_a_field_that_only_a_scale_states_is_shown_with_the_block_that_others_are_like(self):
        shown = _settings(item(BLOCKS, {"small": {"set": {"momentum": 0.9}}, "paper": {}}))
        assert shown["small"]["main"]["momentum"] == 0.9
        assert "momentum" not in shown["small"]["draws"]

    def test_what_a_scale_sets_everywhere_wins_over_what_a_block_states(self):
        shown = _settings(item(BLOCKS, {"small": {"set": {"partition.seed": 4, "rounds": 10}}, "paper": {}}))
        assert shown["small"]["draws"] == {"like": "main", "partition.seed": 4}

    def test_dropped_blocks_are_not_shown(self):
        shown = _settings(item(BLOCKS, {"small": {"drop": ["draws"]}, "paper": {}}))
        assert set(shown["small"]) == {"why", "main"}

    def test_a_component_that_a_scale_replaces_keeps_nothing_of_the_old_one(self):
        shown = _settings(item(BLOCKS, {"small": {"set": {"partition": {"name": "iid"}}}, "paper": {}}))
        assert shown["small"]["main"]["partition.name"] == "iid"
        assert "partition.seed" not in shown["small"]["main"]

    def test_overrides_of_a_scale_stand_beside_those_of_the_item(self):
        own = [{"when": {"model": "mlp"}, "set": {"rounds": 9}}, {"when": {"model": "cnn"}, "set": {"rounds": 8}}]
        of_scale = [{"when": {"model": "cnn"}, "set": {"rounds": 1}}]
        runs = {"main": {**BLOCKS["main"], "overrides": own}}
        main = _settings(item(runs, {"small": {"set": {"overrides": of_scale}}, "paper": {}}))["small"]["main"]
        assert (main["if model mlp"], main["if model cnn"]) == ("rounds 9", "rounds 1")

    def test_overrides_that_a_scale_takes_away_are_gone(self):
        overrides = [{"when": {"model": "mlp"}, "set": {"rounds": 9}}]
        runs = {"main": {**BLOCKS["main"], "overrides": overrides}}
        shown = _settings(item(runs, {"small": {"set": {"overrides": []}}, "paper": {}}))
        assert shown["paper"]["main"]["if model mlp"] == "rounds 9"
        assert "if model mlp" not in shown["small"]["main"]

    def test_an_item_that_does_not_run_has_none(self):
        assert _settings(item({}, {}, planned="needs time", renderer="")) == {}

    @pytest.mark.parametrize("scale", ["demo", "small", "paper"])
    def test_the_projects_items_show_what_really_runs(self, scale):
        """Each value on the page of figure 2 is the one in the specs."""
        figure2 = load_items(ROOT / "config/items")["lrp/figure2"]
        shown = _settings(figure2)[scale]["attack"]
        attacks = [run.spec.attack for run in expand(figure2, scale)]
        assert {attack.capture.dataset for attack in attacks} == set(shown["dataset"])
        assert shown["iterations"] in {attack.iterations for attack in attacks}
        assert shown["images.count"] == max(attack.capture.images.count for attack in attacks)
        assert shown["draws"] == max(attack.capture.draws for attack in attacks)
        assert not any("{" in str(value) for value in shown.values())

    def test_a_change_of_scale_comes_first_on_the_page(self):
        shown = _settings(item(BLOCKS, {"small": {"set": {"rounds": 10}}, "paper": {}}))
        changed = [(line.name, line.values) for line in setting_lines(shown, "small") if line.changed]
        assert changed == [("main.rounds", ("100", "10"))]


class TestPages:
    """Pages of items without results; those with results are drawn in the test of the whole demo."""

    @staticmethod
    def page(asked, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("config").symlink_to(ROOT / "config")
        evidence = Evidence("small", build_plan({asked.key: asked}), Ledger(Path(), ()), ResultTable(), (), (), Path())
        return _page(evidence, asked)

    def test_a_planned_item_says_why(self, tmp_path, monkeypatch):
        page = self.page(item({}, {}, planned="needs time", renderer=""), tmp_path, monkeypatch)
        assert (page.state, page.reason, page.title) == ("planned", "needs time", "A title")
        assert not any((page.pictures, page.grid, page.cost, page.provenance, page.downloads))

    def test_an_item_that_was_not_run_says_how_to(self, tmp_path, monkeypatch):
        asked = load_items(ROOT / "config/items")["lrp/table4"]
        page = self.page(asked, tmp_path, monkeypatch)
        assert (page.state, page.reason) == ("not run", "snakemake --cores 2 results/small/lrp/table4.csv")
        assert page.settings["paper"]["networks"]["model"] == "dlg-lenet"
        assert page.recipe == Recipe(
            page.reason,
            "leaklab plan lrp table4 --scale small",
            0,
            0,
            settings="config/items/lrp/table4.yaml",
            code=page.recipe.code,
            pages=page.recipe.pages,
        )
        assert all((ROOT / path).is_file() for path in (*page.recipe.code, *page.recipe.pages))

    def test_it_says_what_it_would_cost_and_read(self, tmp_path, monkeypatch):
        asked = load_items(ROOT / "config/items")["lrp/figure2"]
        recipe = self.page(asked, tmp_path, monkeypatch).recipe
        jobs = build_plan({asked.key: asked}).jobs_of("small", asked)
        assert recipe.command == "snakemake --cores 2 results/small/lrp/figure2.csv"
        assert recipe.jobs == len(jobs)
        assert recipe.cpu_seconds == pytest.approx(sum(cost(job.spec).seconds for job in jobs))
        assert [data.name for data in recipe.data] == ["cifar100", "lfw", "mnist"]


def test_absent_records_of_runs_and_data_sets_are_counted(tmp_path, monkeypatch):
    asked = load_items(ROOT / "config/items")["lrp/figure2"]
    monkeypatch.chdir(ROOT)
    plan = build_plan({asked.key: asked})
    jobs = plan.jobs_of("small", asked)
    monkeypatch.chdir(tmp_path)
    assert absent_records(plan, "small", [asked]) == len(jobs) + 3
    write_json(jobs[0].folder / "run.json", {})
    write_json(Path("data/prepared/mnist.run.json"), {})
    assert absent_records(plan, "small", [asked]) == len(jobs) + 1


class TestPartitions:
    @pytest.fixture
    def jobs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        partition = {"name": "label-shards", "shard_size": 100, "seed": 3, "validation": 0.2}
        deal = PartitionSpec.model_validate({"dataset": "mnist", "partition": partition})
        other = PartitionSpec.model_validate({"dataset": "mnist", "partition": {"name": "iid"}})
        return [Job(deal), Job(other)]

    def test_a_deal_is_shown_where_it_was_published(self, jobs):
        assert partition_pictures("small", jobs) == ()
        drawn = Path(f"figures/small/partition-{jobs[0].name}.png")
        drawn.parent.mkdir(parents=True)
        drawn.write_bytes(b"png")
        (picture,) = partition_pictures("small", jobs)
        assert (picture.path, picture.pdf) == (drawn, None)
        assert picture.caption == "MNIST, label-shards (shard size 100, seed 3, set aside 20 %)"
        assert partition_pictures("demo", jobs) == ()


def test_a_block_that_cannot_run_here_says_why_in_place_of_its_settings():
    shown = _settings(item(BLOCKS, {"small": {"absent": {"draws": "data not here: X"}}, "paper": {}}))
    assert shown["small"]["draws"] == {"not run": "data not here: X"}
    assert shown["small"]["main"] == shown["paper"]["main"]
