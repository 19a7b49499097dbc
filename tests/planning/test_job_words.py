"""What jobs are in words: every rule has some, and each job says item, data, defense and attack."""

import re
from types import SimpleNamespace

import pytest

from leaklab.planning.devices import Device
from leaklab.planning.job_words import STAGES, WORDS, JobWords
from leaklab.records.errors import UserError
from leaklab.report.judge.terms import name_in_words

PATH_ONLY = {"default", "demo", "small", "paper"}


@pytest.fixture(scope="module")
def words(whole_plan):
    items = {}
    for item in whole_plan.ready("demo"):
        for job in whole_plan.jobs_of("demo", item):
            items.setdefault((job.spec.stage, job.name), []).append(item.key)
    return JobWords(whole_plan.job, lambda stage, run: 4, items, Device(), name_in_words)


def run_of(plan, stage, item, **fields):
    """Return a run of an item at scale demo whose name has some words."""
    jobs = plan.jobs_of("demo", plan.items[item])
    return next(job.name for job in jobs if job.spec.stage == stage and all(one in job.name for one in fields.values()))


def test_every_rule_with_a_command_has_words(rule_texts):
    text = set(rule_texts) | {"join_text_pieces"}
    assert text == set(WORDS)
    assert set(STAGES) <= text


def test_an_attack_names_item_attack_data_and_defense(words, whole_plan):
    run = run_of(whole_plan, "attack", "lrp/figure2", attack="-dlg-none", defense="on-lrp")
    told = words.of("run_attack", {"run": run})
    assert re.fullmatch(r"lrp/figure2( and \d+ more)?: DLG on \S+, LRP", told.words)
    assert re.fullmatch(r"lrp-figure2-DLG-on-\S+-LRP", told.name)
    assert told.kind == "run_attack"
    assert told.seconds > 2
    score = run_of(whole_plan, "score", "lrp/figure2", attack="-idlg-closed-form-scale", defense="on-lrp")
    assert (
        words.of("score_attack", {"run": score})
        .words.split(": ")[1]
        .startswith("scores of iDLG (closed form scale) on ")
    )


def test_every_job_of_the_demo_has_words_without_gaps(words, whole_plan):
    for item in whole_plan.ready("demo"):
        for job in whole_plan.jobs_of("demo", item):
            told = words.of(job.spec.rule, {"run": job.name})
            assert re.fullmatch(r"\S+/\S+( and \d+ more)?: \S.*\S", told.words), told
            assert not re.search(r", ,|,\s*$|\{|  |on ,|-guest-", told.words), told
            assert re.fullmatch(r"[A-Za-z0-9.+-]{5,60}", told.name), told


def test_a_piece_says_which_of_how_many(words, whole_plan):
    attack = run_of(whole_plan, "attack", "lrp/figure2")
    assert words.of("attack_piece", {"run": attack, "piece": "0"}).words.endswith(", part 1 of 4")
    train = run_of(whole_plan, "train", "lrp/table1")
    first = words.of("train_piece", {"run": train, "left": "3"})
    assert first.words.endswith(", part 1 of 4")
    whole = JobWords(whole_plan.job, lambda *_: 1, {}, Device())
    assert first.seconds < whole.of("train_federated", {"run": train}).seconds


def test_one_line_tells_of_table_and_figure_where_both_are_made(words):
    place = {"scale": "demo", "paper": "lrp", "item": "table1"}
    alone = words.tell([(1, "make_table", place)])
    assert alone[1].words == "lrp/table1: table"
    both = words.tell([(1, "make_table", place), (2, "make_figure", place), (3, "demo", {})])
    assert {number: one.words for number, one in both.items()} == {1: "", 2: "lrp/table1: table and figure"}
    assert both[1].name == "lrp-table1-table"
    assert words.tell([(1, "make_figure", place)])[1].words == "lrp/table1: figure"


def test_a_guest_is_called_as_its_file(whole_plan):
    run = run_of(whole_plan, "capture", "lrp/figure2", defense="-lrp")
    spec = whole_plan.job("capture", run).spec
    guest = spec.model_copy(update={"defense": spec.defense.model_copy(update={"name": "shrink-guest-0a1b2c3d"})})
    words = JobWords(lambda *_: SimpleNamespace(spec=guest), lambda *_: 1, {}, Device())
    assert words.of("capture_updates", {"run": run}).words.endswith(", shrink")


def test_a_run_of_no_item_is_refused(words):
    def none(stage, run):
        raise UserError("no item asks for it")

    with pytest.raises(UserError):
        JobWords(none, lambda *_: 1, {}, Device()).of("run_attack", {"run": "x"})
