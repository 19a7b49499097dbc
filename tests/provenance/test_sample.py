"""Which stale runs are repeated: enough for every part, none without need, the cheapest."""

from pathlib import Path

import pytest

from leaklab.planning.code_lock import CodeLock
from leaklab.planning.plan import Plan, build_plan
from leaklab.provenance.audit import Made
from leaklab.provenance.sample import Stale, Survey, choose, seconds_of
from leaklab.records.files import sha256
from leaklab.records.ledger import Entry, Ledger
from leaklab.specs.attack import AttackSpec
from leaklab.specs.stages import observation_folder


def stale(name, parts, seconds=1.0, code="a", commit="c0", rule="run_attack", modules=("m",), hindrance=""):
    content = {"rule": rule, "code": code, "commit": commit, "wall_seconds": seconds}
    made = Made(rule, " ".join((rule, *modules)), f"new of {modules}")
    return Stale(Entry(Path(name), content), made, code, (rule, *parts), hindrance=hindrance)


def names(sample):
    return sorted(str(one.entry.path) for one in sample.runs)


def test_the_cheapest_run_of_each_plugin_is_taken_and_shared_where_it_can_be():
    runs = [
        stale("dear", ["dlg", "mlp"], 90),
        stale("cheap", ["dlg", "mlp"], 2),
        stale("cnn", ["dlg", "cnn"], 3, code="b", modules=("m", "cnn")),
        stale("cnn too", ["dlg", "cnn"], 4, code="b", modules=("m", "cnn")),
    ]
    sample = choose(runs)
    assert names(sample) == ["cheap", "cnn"]
    assert sample.uncovered == {}


def test_runs_of_another_stage_show_nothing():
    runs = [stale("attack", ["mlp"], 1), stale("capture", ["mlp"], 1, rule="capture_updates")]
    assert names(choose(runs)) == ["attack", "capture"]


def test_each_older_code_is_shown_by_a_run_of_its_own():
    """One plug-in, two older codes made at different commits: the one says nothing about the other."""
    runs = [
        stale("first", ["lrp", "mlp"], 1, code="a", commit="c0", modules=("mlp",)),
        stale("second", ["lrp", "cnn"], 9, code="b", commit="c1", modules=("cnn",)),
    ]
    assert names(choose(runs)) == ["first", "second"]


def test_runs_of_one_commit_speak_for_each_other():
    runs = [
        stale("a", ["lrp", "mlp"], 1, code="a", modules=("mlp", "lrp")),
        stale("b", ["none", "cnn"], 1, code="b", modules=("cnn", "none")),
        stale("c", ["lrp", "cnn"], 9, code="c", modules=("cnn", "lrp")),
    ]
    assert names(choose(runs)) == ["a", "b"]


def test_what_no_run_can_show_stays_stale_and_says_why():
    runs = [
        stale("smc", ["table"], 1, rule="make_table", hindrance="it shows wall times"),
        stale("other", ["mlp"], 1),
    ]
    sample = choose(runs)
    assert names(sample) == ["other"]
    assert list(sample.uncovered.values()) == ["make_table: it shows wall times"]


def test_a_hindered_run_is_covered_by_others_of_its_kind():
    runs = [stale("smc", ["table"], 1, hindrance="it shows wall times"), stale("theorem", ["table"], 5)]
    sample = choose(runs)
    assert names(sample) == ["theorem"]
    assert sample.uncovered == {}


def test_the_estimate_counts_what_runs_share_once():
    one, two = stale("one", ["x"], 10), stale("two", ["x"], 20)
    assert seconds_of([one, two]) == seconds_of([one]) + seconds_of([two])


@pytest.mark.parametrize("edited", ["item.yaml", None])
def test_a_step_that_reads_records_shows_nothing_where_one_of_them_has_another_input_now(tmp_path, edited):
    """It would have to name the changed input, which the step did not do then."""

    def record(name, rule, inputs, output):
        (tmp_path / output).write_text(output)
        digests = {path: sha256(tmp_path / path) for path in inputs}
        content = {"rule": rule, "inputs": digests, "outputs": {output: sha256(tmp_path / output)}, "facts": {}}
        return Entry(Path(name), {**content, "spec": {}, "argv": [], "code": "a"})

    (tmp_path / "item.yaml").write_text("old")
    judged = record("judged.run.json", "judge_claims", ["item.yaml"], "claims.csv")
    audited = record("audited.run.json", "audit_provenance", ["claims.csv"], "audit.json")
    if edited:
        (tmp_path / edited).write_text("new")
    survey = Survey(build_plan({}), Ledger(tmp_path, (judged, audited)), CodeLock())
    hindrance = "item.yaml is not what judged.run.json was made from" if edited else ""
    assert survey._hindrance(audited) == hindrance


def test_a_missing_observation_asks_for_its_capture(tmp_path):
    """The observation has a folder of its own; the run that leaves it there is the capture's."""
    plan = Plan({})
    spec = AttackSpec.model_validate(
        {"capture": {"dataset": "digits", "images": {"count": 1}, "model": "mlp"}, "attack": "idlg", "iterations": 1}
    )
    plan.add(spec)
    survey = Survey(plan, Ledger(tmp_path, ()), CodeLock())
    missing = survey._missing(str(observation_folder(spec.capture) / "observation.safetensors"))
    assert [job.spec for job in missing] == [spec.capture]
