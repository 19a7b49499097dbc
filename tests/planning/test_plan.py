"""The plan of all jobs: closed under needs, shared between items, refused where a pair cannot be."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leaklab.data.catalog import load_catalog
from leaklab.items.items import Item
from leaklab.planning import code as planning_code
from leaklab.planning.code import code_of, kept_digests
from leaklab.planning.plan import Job, build_plan, result_files
from leaklab.records import code
from leaklab.records.errors import UserError
from leaklab.records.kept_json import PACKAGE_FOLDER
from leaklab.specs import base
from leaklab.specs.base import reads_the_update, run_id
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.text import TEXT_FOLDER, TextCaptureSpec
from leaklab.specs.training import TrainSpec

ROOT = Path(__file__).parents[2]
FIELDS = {"paper": "lrp", "title": "A title", "number": 1, "kind": "table", "renderer": "table"}
TRAIN = {
    "stage": "train",
    "dataset": "digits",
    "partition": {"name": "two-clients", "shard_size": 5},
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
    "model": "dlg-lenet",
    "attack": "idlg",
    "iterations": 5,
    "metrics": ["mse"],
}
TEXT = {
    "stage": "attack-text",
    "dataset": "printed-sentences",
    "sentences": {},
    "model": "bert-classifier",
    "attack": "tag",
    "metrics": ["token_recovery"],
}
FAKE_DEFENSE = "from leaklab.defenses.base import Defense\n\n\nclass Fake(Defense):\n    pass\n\n\nPLUGIN = Fake\n"
UNBIASED = """
from dataclasses import dataclass
from typing import ClassVar

from leaklab.models.cnns import DLGLeNet
from leaklab.records.traits import ModelTraits


@dataclass(frozen=True)
class Unbiased(DLGLeNet):
    traits: ClassVar[ModelTraits] = ModelTraits(head_bias=False)


PLUGIN = Unbiased
"""


@pytest.fixture(scope="module")
def plan(whole_plan):
    return whole_plan


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A copy of our own source that a test may edit; call it to forget what was read before."""
    shutil.copytree(code.SOURCE / "leaklab", tmp_path / "leaklab", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "SOURCE", tmp_path)
    forget()
    yield tmp_path / "leaklab"
    forget()


@pytest.fixture
def fake_defense(source, package_at):
    """A defense that no transform was made for, in the copied source."""
    (source / "defenses/fake.py").write_text(FAKE_DEFENSE, encoding="utf-8")
    package_at(source)


def forget():
    cached = (code.sources, planning_code._digest_of, kept_digests)
    for function in cached:
        function.cache_clear()


def all_jobs(plan):
    return {f"{stage}/{name}": job for stage, jobs in plan.jobs.items() for name, job in jobs.items()}


def item(block, name="table1", **fields):
    scales = {"small": {}}
    return Item.model_validate({**FIELDS, "item": name, "runs": {"main": block}, "scales": scales, **fields})


def plan_of(*items):
    return build_plan({asked.key: asked for asked in items})


def refusal(block):
    with pytest.raises(UserError) as caught:
        plan_of(item(block))
    message = str(caught.value)
    assert "\n" not in message
    prefix = "config/items/lrp/table1.yaml: runs.main: "
    assert message.startswith(prefix)
    return message.removeprefix(prefix)


class TestNeeds:
    def test_what_a_job_needs_is_a_job_too(self, plan):
        jobs = all_jobs(plan)
        needed = [spec for job in jobs.values() for spec in job.needs]
        assert len(needed) > 100
        for spec in needed:
            assert jobs[f"{spec.stage}/{run_id(spec)}"].spec == spec

    def test_every_stage_stands_on_the_ones_before_it(self, plan):
        below = {stage: {s.stage for job in jobs.values() for s in job.needs} for stage, jobs in plan.jobs.items()}
        assert below == {
            "partition": set(),
            "check": {"partition"},
            "train": {"partition", "train"},  # a backbone is trained first
            "generator": set(),
            "capture": {"partition", "train", "generator"},
            "law": {"capture", "generator"},
            "attack": {"capture", "generator", "law"},
            "score": {"capture", "attack", "generator"},
            "projection": {"generator"},
            "landscape": {"capture", "generator", "attack", "projection"},
            "capture-text": set(),
            "attack-text": {"capture-text"},
            "score-text": {"capture-text", "attack-text"},
        }

    def test_an_attack_is_given_no_data_but_its_capture(self, plan):
        attacks = [*plan.jobs["attack"].values(), *plan.jobs["attack-text"].values()]
        assert {job.dataset for job in attacks} == {""}

    def test_every_dataset_of_a_job_is_planned_and_in_the_catalog(self, plan):
        used = {job.dataset for job in all_jobs(plan).values()} - {""}
        assert used == plan.datasets
        images, texts = (load_catalog(ROOT / f"config/{name}.yaml") for name in ("datasets", "texts"))
        assert used <= {*images, *(TEXT_FOLDER + name for name in texts)}

    def test_an_items_jobs_come_each_once_and_after_what_they_need(self, plan):
        for (scale, key), runs in plan.runs.items():
            jobs = plan.jobs_of(scale, plan.items[key])
            done = set()
            for job in jobs:
                assert all(run_id(spec) in done for spec in job.needs), job.name
                assert job.name not in done
                done.add(job.name)
            assert {run_id(run.spec) for run in runs if run.spec is not None} <= done

    def test_a_job_is_found_by_the_name_of_its_folder(self, plan):
        for stage, jobs in plan.jobs.items():
            for job in jobs.values():
                assert job.folder == base.RUNS / stage / job.name
                assert plan.job(stage, job.name) is job
            for job in list(jobs.values())[:20]:
                alone = Job(job.spec)
                assert (job.name, job.folder, job.read_runs) == (alone.name, alone.folder, alone.read_runs)


class TestSharing:
    def test_the_tables_own_sweep_is_its_first_draw(self, plan):
        """In the demo the table and the sensitivity to the draw have the same seeds: draw 0 is run once."""
        asked = plan.runs["demo", "lrp/table1"]
        trained = [job for job in plan.jobs_of("demo", plan.items["lrp/table1"]) if job.spec.stage == "train"]
        first = {run_id(run.spec) for run in asked if run.block == "draws" and run.variant == "partition-seed=0"}
        own = {
            run_id(run.spec) for run in asked if run.block == "table" and run.spec.model.name == "logistic-regression"
        }
        assert own
        assert own == first
        assert len(trained) == len({run_id(run.spec) for run in asked}) == len(asked) - len(first)

    def test_two_items_that_ask_for_the_same_run_share_it(self):
        both = item(TRAIN), item({**TRAIN, "defense": ["none", "lrp"]}, name="table2")
        plan = plan_of(*both)
        (one,), two = ([job for job in plan.jobs_of("small", i) if isinstance(job.spec, TrainSpec)] for i in both)
        assert len(two) == 2
        assert sum(job is one for job in two) == 1
        assert (len(plan.jobs["train"]), len(plan.jobs["partition"])) == (2, 1)

    def test_scales_share_what_they_do_not_change(self):
        scales = {"small": {}, "paper": {}, "demo": {"set": {"rounds": 1}}}
        plan = plan_of(item(TRAIN, scales=scales))
        assert {scale for scale, _ in plan.runs} == {"demo", "small", "paper"}
        assert len(plan.jobs["train"]) == 2

    def test_two_runs_with_one_id_are_refused(self, monkeypatch):
        monkeypatch.setattr(base, "HASH_LENGTH", 0)
        with pytest.raises(UserError, match="two train runs share the id digits-mlp-none-: lengthen HASH_LENGTH"):
            plan_of(item({**TRAIN, "rounds": [2, 3]}))


def test_an_item_is_ready_at_the_scales_that_it_has():
    waiting = Item.model_validate({**FIELDS, "item": "table2", "renderer": "", "planned": "needs time"})
    plan = plan_of(item(TRAIN), waiting)
    assert [ready.key for ready in plan.ready("small")] == ["lrp/table1"]
    assert plan.ready("demo") == []


def test_results_and_figures_of_a_scale_lie_below_it():
    files = result_files(item(TRAIN), "small")
    assert len(set(files.values())) == len(files) == 8
    assert {path.parts[:3] for path in files.values()} == {("results", "small", "lrp"), ("figures", "small", "lrp")}


class TestRefusals:
    """Each is one line that names the item's file and the block."""

    def test_an_attack_that_needs_what_is_withheld(self):
        known = {**ATTACK, "attack": {"name": "idlg", "label_rule": "known"}}
        said = refusal(known)
        assert said.startswith(
            "attack 'idlg' needs 'labels', which threat model 'honest-but-curious' withholds: choose another attack or "
            "threat model (threat_model: honest-but-curious-with-labels grants it; attack.label_rule: counts or "
            "unmixed does without; attacks that do without: "
        )
        for name in re.search(r"attacks that do without: (.*)\)$", said).group(1).split(", "):
            assert plan_of(item({**ATTACK, "attack": name})).jobs["attack"]
        for rule in ("counts", "unmixed"):
            assert plan_of(item({**ATTACK, "attack": {"name": "idlg", "label_rule": rule}})).jobs["attack"]
        assert plan_of(item({**known, "threat_model": "honest-but-curious-with-labels"})).jobs["attack"]

    def test_a_refused_attack_is_offered_no_choice_that_would_be_refused(self):
        batch = {**ATTACK, "batch_size": 2, "attack": "ig", "threat_model": "parameter-aware"}
        said = refusal(batch)
        assert "(threat_model: parameter-aware+y grants it; " in said
        offered = re.search(r"attacks that do without: (.*)\)$", said).group(1).split(", ")
        assert "dlg" in offered
        assert "analytic" not in offered  # it reads one sample, behind an affine layer
        assert "ggl" not in offered  # it needs a generator

    def test_an_attack_on_sentences_that_needs_withheld_labels(self):
        said = refusal({**TEXT, "labels": "known"})
        assert "(threat_model: honest-but-curious-with-labels grants it; labels: searched or inferred does" in said

    def test_a_refusal_for_another_reason_offers_none(self):
        assert refusal({**ATTACK, "model": "mlp", "attack": "analytic", "optimizer": "adam"}).endswith("another attack")

    def test_a_transform_that_does_not_fit(self):
        transform = {**ATTACK, "transform": "closed-form-scale", "defense": "lrp"}
        assert plan_of(item(transform)).jobs["attack"]
        assert "works for batch_size <= 1, not 2" in refusal({**transform, "batch_size": 2})

    def test_an_attack_without_the_generator_that_it_needs_or_with_one_too_many(self):
        prior = {"dataset": "digits", "steps": 3}
        assert refusal({**ATTACK, "attack": "ggl"}).startswith("attack 'ggl' needs a generator: add e.g. generator: ")
        assert refusal({**ATTACK, "generator": prior}) == "attack 'idlg' uses no generator: remove 'generator'"
        searched = {**ATTACK, "attack": "ggl", "generator": prior}
        plan = plan_of(item(searched))
        (job,) = plan.jobs["generator"].values()
        assert (job.dataset, job.needs) == ("digits", ())
        assert [job.spec in attack.needs for attack in plan.jobs["attack"].values()] == [True]
        seen = {**searched, "images": {"count": 2, "split": "train"}}
        assert "very images that are attacked" in refusal(seen)
        assert refusal({**searched, "generator": {**prior, "model": "gan"}}).startswith(
            "unknown models/generators plug-in"
        )

    @pytest.mark.usefixtures("fake_defense")
    def test_a_transform_under_a_defense_that_it_was_not_made_for(self):
        transform = {**ATTACK, "transform": "support-only", "defense": "fake"}
        assert refusal(transform) == (
            "transform 'support-only' does not fit defense 'fake': it is made for gradient-compression, none"
        )
        for scale_free in ("none", "closed-form-scale", "profiled-scale"):
            assert plan_of(item({**transform, "transform": scale_free})).jobs["capture"]

    def test_a_malicious_server_whose_threat_model_is_not_granted(self):
        fished = {**ATTACK, "server": {"name": "fishing", "target": 3}, "batch_size": 2}
        assert refusal(fished) == (
            "server 'fishing' changes the weights that it sends, which threat model 'honest-but-curious' does not "
            "grant: set threat_model: malicious-server"
        )
        # idlg reads one sample, and one is what fishing leaves of a batch
        malicious = {**fished, "threat_model": "malicious-server"}
        assert plan_of(item(malicious)).jobs["attack"]
        imprinted = {**malicious, "server": {"name": "imprint", "mean": 0.3, "std": 0.1}}
        assert "works for batch_size <= 1, not 2" in refusal({**imprinted, "transform": "closed-form-scale"})
        assert refusal({**malicious, "server": "fishing"}).startswith(
            "observations/servers plug-in 'fishing' needs the setting 'target'"
        )

    def test_a_malicious_server_on_a_head_without_a_bias(self, source, package_at):
        (source / "models/unbiased.py").write_text(UNBIASED, encoding="utf-8")
        package_at(source)
        fished = {**ATTACK, "server": {"name": "fishing", "target": 3}, "threat_model": "malicious-server"}
        assert refusal({**fished, "model": "unbiased"}) == (
            "server 'fishing' changes a last affine layer with a bias, and that of model 'unbiased' has none: choose "
            "another model"
        )

    def test_a_gradient_under_a_threat_model_without_the_rate(self):
        assert "choose kind: delta" in refusal({**ATTACK, "threat_model": "blind-rate"})

    def test_a_fact_that_the_letter_of_the_threat_model_lacks(self):
        prior = {"dataset": "digits", "steps": 3}
        searched = {**ATTACK, "attack": "ggl", "generator": prior}
        assert refusal({**searched, "threat_model": "parameter-aware"}) == (
            "attack 'ggl' needs 'generator', which threat model 'parameter-aware' withholds: choose another attack or "
            "threat model (threat_model: data-enhanced grants it)"
        )
        assert plan_of(item({**searched, "threat_model": "data-enhanced"})).jobs["attack"]
        noisy = {**ATTACK, "defense": {"name": "additive-noise", "sigma": 0.1}, "transform": "matched-noise"}
        assert "needs 'defense', which threat model 'parameter-aware'" in refusal(
            {**noisy, "threat_model": "parameter-aware"}
        )
        assert plan_of(item({**noisy, "threat_model": "parameter-aware+d"})).jobs["attack"]
        informed = {**ATTACK, "threat_model": "informed", "kind": "delta"}
        assert "needs 'local_steps', which threat model 'informed' withholds" in refusal(informed)
        assert plan_of(item({**informed, "transform": "closed-form-scale"})).jobs["attack"]
        assert "unknown threat model 'informed+d+y'" in refusal({**informed, "threat_model": "informed+d+y"})

    def test_an_attack_on_text_that_asks_for_more_than_there_is(self):
        assert plan_of(item(TEXT)).datasets == {"text/printed-sentences"}
        assert "attack 'tag' needs 'labels', which threat model" in refusal({**TEXT, "labels": "known"})
        with_labels = {**TEXT, "labels": "known", "threat_model": "honest-but-curious-with-labels"}
        assert plan_of(item(with_labels)).jobs["attack-text"]
        blind = {**TEXT, "threat_model": "blind-rate"}
        assert "choose kind: delta" in refusal(blind)
        assert "attack 'tag' needs 'nominal_rate'" in refusal({**blind, "kind": "delta"})
        assert plan_of(item({**blind, "kind": "delta", "attack": "mean-cosine"})).jobs["attack-text"]
        steps = {**TEXT, "attack": "token-order", "local_steps": 2}
        assert refusal(steps).startswith("attack 'token-order' works for local_steps <= 1, not 2: ")
        assert "no sentences to capture" in refusal({**TEXT, "sentences": {"printed": False}})

    def test_what_the_item_itself_gets_wrong(self):
        assert refusal({**ATTACK, "attack": "idgl"}).startswith("unknown attacks plug-in 'idgl'")
        assert refusal({**TRAIN, "rounds": 0}).startswith("rounds: ")


class TestCode:
    """Which jobs a change of code runs again (the repository's own items, on a copy of its source)."""

    @pytest.fixture(scope="class")
    def before(self, plan):
        """Before any edit; where sources lie is no part of their digest, so those here are as good as a copy."""
        forget()
        return {name: code_of(job.spec).digest for name, job in all_jobs(plan).items()}

    @staticmethod
    def changed(plan, before):
        forget()
        return {name for name, job in all_jobs(plan).items() if code_of(job.spec).digest != before[name]}

    def test_a_new_defense_runs_nothing_again(self, plan, before, source):
        (source / "defenses/fake.py").write_text(FAKE_DEFENSE, encoding="utf-8")
        assert self.changed(plan, before) == set()

    def test_a_changed_defense_runs_again_what_names_it_and_nothing_else(self, plan, before, source):
        lrp = source / "defenses/lrp.py"
        text = lrp.read_text(encoding="utf-8")
        assert "class_offset: Real = 1.0" in text
        lrp.write_text(text.replace("class_offset: Real = 1.0", "class_offset: Real = 0.9", 1), encoding="utf-8")
        named = {
            name
            for name, job in all_jobs(plan).items()
            if isinstance(job.spec, TrainSpec | CaptureSpec | TextCaptureSpec) and job.spec.defense.name == "lrp"
        }
        assert {name.partition("/")[0] for name in named} == {"train", "capture", "capture-text"}
        # who knows the defense executes it
        captures = {f"attack/{name}": job.spec.capture for name, job in plan.jobs["attack"].items()}
        captures |= {f"landscape/{name}": job.spec.attack.capture for name, job in plan.jobs["landscape"].items()}
        named |= {name for name, capture in captures.items() if capture.defense.name == "lrp"}
        named |= {f"law/{name}" for name, job in plan.jobs["law"].items() if job.spec.capture.defense.name == "lrp"}
        # one checks LRP, others are told to take it
        checks = {name: job.spec.check for name, job in plan.jobs["check"].items()}
        named |= {
            f"check/{k}" for k, one in checks.items() if one.name == "rate-draws" or "lrp" in one.settings.values()
        }
        # a metric that reads the update undoes what the client did
        named |= {
            f"score/{name}"
            for name, job in plan.jobs["score"].items()
            if job.spec.attack.capture.defense.name == "lrp" and any(map(reads_the_update, job.spec.metrics))
        }
        assert self.changed(plan, before) == named

    def test_what_another_process_kept_of_the_code_here_says_nothing_of_changed_code(self, source, monkeypatch):
        (source.parent / ".snakemake").mkdir()
        monkeypatch.chdir(source.parent)
        spec = CaptureSpec.model_validate({"dataset": "digits", "images": {"count": 1}, "model": "mlp"})
        monkeypatch.setattr(code, "SOURCE", PACKAGE_FOLDER.parent)
        forget()
        before = code_of(spec).digest
        kept_digests().save()
        monkeypatch.setattr(code, "SOURCE", source.parent)
        capturing = source / "captures/capture.py"
        text = capturing.read_text(encoding="utf-8")
        capturing.write_text(f"{text}\n\ndef capture():\n    return None\n", encoding="utf-8")
        forget()
        assert code_of(spec).digest != before

    def test_a_changed_metric_runs_no_training_and_no_attack_again(self, plan, before, source):
        pixel = source / "metrics/pixel.py"
        text = pixel.read_text(encoding="utf-8")
        assert text.count("data_range=1.0") == 1
        pixel.write_text(text.replace("data_range=1.0", "data_range=2.0", 1), encoding="utf-8")
        scored = {f"score/{name}" for name, job in plan.jobs["score"].items() if "ssim" in job.spec.metrics}
        assert self.changed(plan, before) == scored != set()

    def test_the_new_defense_itself_has_code_of_its_own(self, source, package_at):
        def digest(defense):
            forget()
            package_at(source)
            spec = {"dataset": "digits", "images": {"count": 1}, "model": "mlp", "defense": defense}
            return code_of(CaptureSpec.model_validate(spec)).digest

        (source / "defenses/fake.py").write_text(FAKE_DEFENSE, encoding="utf-8")
        fake, lrp = digest("fake"), digest("lrp")
        assert fake != lrp
        (source / "defenses/fake.py").write_text(FAKE_DEFENSE.replace("pass", "more = 1"), encoding="utf-8")
        assert digest("fake") != fake
        assert digest("lrp") == lrp

    def test_the_plans_jobs_carry_the_same_digest(self, plan):
        for job in plan.jobs["capture"].values():
            assert job.code == code_of(job.spec).digest


def test_planning_imports_neither_torch_nor_pandas():
    """The whole plan with all digests, as every Snakemake process builds it."""
    program = (
        "import sys\n"
        "from leaklab.planning.plan import build_plan\n"
        "from leaklab.items.items import load_items\n"
        "jobs = [job for jobs in build_plan(load_items()).jobs.values() for job in jobs.values()]\n"
        "assert all(len(job.code) == 16 for job in jobs) and len(jobs) > 100\n"
        "print(*sorted({'torch', 'pandas', 'numpy', 'matplotlib', 'seaborn'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "\n"


def test_a_score_reads_update_and_generator_only_where_a_metric_asks(tmp_path):
    generator = {"dataset": "digits", "model": "class-gaussian", "steps": 1}
    block = {**ATTACK, "attack": "annealed-map", "generator": generator}
    needs = {}
    for metrics in (["mse"], ["mse", "linear-posterior"]):
        (job,) = plan_of(item({**block, "metrics": metrics})).jobs["score"].values()
        needs[len(metrics)] = [spec.stage for spec in job.needs]
    assert needs == {1: ["capture", "attack"], 2: ["capture", "generator", "attack"]}
