"""Result rows of attacks on text, and the drawing of what was read, on runs whose numbers are written by the test."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.items.layouts import SentencesLayout
from leaklab.metrics.silence import silence_line
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_table
from leaklab.report.collect.item import collect
from leaklab.report.figures import sentences_figure
from leaklab.report.figures.sentences_figure import Reading
from leaklab.report.figures.style import FAINT, PALETTE, SMALLEST_FONT
from leaklab.specs.base import run_folder, run_id

ATTACKS = {"tag": 0.2, "profiled-tag": 0.5, "mean-cosine": 0.8}
BLOCK = {
    "stage": "attack-text",
    "dataset": "cola",
    "sentences": {"others": 1},
    "draws": 2,
    "model": "bert-classifier",
    "defense": ["none", "lrp"],
    "attack": list(ATTACKS),
    "metrics": ["token_recovery"],
    "overrides": [{"when": {"defense": "none"}, "set": {"draws": 1}}],
    "skip": [{"defense": "none", "attack": ["profiled-tag", "mean-cosine"]}],
}
ITEM = {
    "paper": "lrp",
    "item": "table7",
    "number": 7,
    "kind": "table",
    "title": "Sentences",
    "renderer": "sentences",
    "runs": {"main": BLOCK},
    "cells": {"row": {"method": {"from": "defense.name", "as": {"none": "fedavg"}}}, "better": "lower"},
    "sentences": {"labels": {"attack": {"tag": "TAG"}}},
    "scales": {"demo": {"set": {"dataset": "printed-sentences"}}, "small": {}, "paper": {}},
}
TEXT = "The cost is $5 and $5."
PRIVATE = ["the", "cost", "is", "$", "5", "and", "$", "5", "."]


@pytest.fixture
def item(tmp_path, monkeypatch):
    """Write scores: token recovery of an attack's level plus a hundredth per example, a tenth for the second draw."""
    monkeypatch.chdir(tmp_path)
    for name in ("cola", "printed-sentences"):
        write_json(Path(f"data/prepared/text/{name}.json"), {"substitute": "whole words"})
    item = Item.model_validate(ITEM)
    for scale in ("demo", "small"):
        for run in expand(item, scale):
            write_run(run.spec)
    return item


def write_run(spec):
    level, draws = ATTACKS[spec.attack.attack.name], spec.attack.capture.draws
    lines, texts = [], []
    for trial in range(3 * draws):
        example, draw = trial // draws + 1, trial % draws
        place = {"trial": trial, "example": example, "draw": draw}
        value = level + 0.01 * example + 0.1 * draw
        for selection, found in (("best-by-loss", value), ("frequent-words", 0.1), ("unrelated-sentence", 0.15)):
            lines.append({**place, "selection": selection, "metric": "token_recovery", "value": found})
        read = ["cost", "the", "$", "$", "$", "5", "x"]
        texts.append({**place, "text": TEXT, "private": PRIVATE, "read": read, "factor": 1.0 + draw})
    write_table(run_folder(spec) / "scores.csv", pd.DataFrame(lines))
    write_json(run_folder(spec) / "texts.json", {"trials": texts})


def rows_of(results, metric, attacker="paper", **keys):
    found = [row for row in results.rows if (row.metric, row.attacker) == (metric, attacker)]
    return [row for row in found if row.row == keys]


def test_each_sentence_is_one_row_the_mean_over_its_draws(item):
    results = collect(item, "small")
    for example in (1, 2, 3):
        (undefended,) = rows_of(results, "token_recovery", method="fedavg", example=example)
        assert (undefended.value, undefended.n, undefended.std) == (pytest.approx(0.2 + 0.01 * example), 1, None)
        (defended,) = rows_of(results, "token_recovery", method="lrp", example=example)
        assert (defended.value, defended.n) == (pytest.approx(0.25 + 0.01 * example), 2)
        assert defended.std == pytest.approx(np.std([0, 0.1], ddof=1))
        assert defended.better == "lower"


def test_means_are_over_all_trials(item):
    results = collect(item, "small")
    (mean,) = rows_of(results, "token_recovery_mean", method="lrp")
    assert (mean.value, mean.n) == (pytest.approx(0.27), 6)
    # three sentences, two draws each
    assert (mean.clusters, mean.ci_low) == (3, None)


def test_shares_have_no_median(item):
    assert not [row for row in collect(item, "small").rows if row.metric.endswith("_median")]


def test_the_knowing_attacker_is_the_one_that_reads_most_and_all_that_were_tried_stay_visible(item):
    results = collect(item, "small")
    (strongest,) = rows_of(results, "token_recovery_mean", "knowing", method="lrp", by="mean-cosine")
    assert strongest.value == pytest.approx(0.87)
    assert rows_of(results, "token_recovery", "knowing", method="lrp", by="mean-cosine", example=1)
    for name, level in ATTACKS.items():
        (tried,) = rows_of(results, "token_recovery_mean", "", method="lrp", tried=name)
        assert tried.value == pytest.approx(level + 0.07)
    (alone,) = rows_of(results, "token_recovery_mean", "knowing", method="fedavg", by="tag")
    assert alone.value == pytest.approx(0.22)


def test_the_strongest_is_that_by_the_mean_where_most_sentences_are_read_whole(item):
    """The median of both is 1."""
    for run in expand(item, "small"):
        attack = run.spec.attack.attack.name
        if attack != "tag":
            path = run_folder(run.spec) / "scores.csv"
            table = pd.read_csv(path)
            own = table.index[table.selection == "best-by-loss"]
            table.loc[own, "value"] = 1.0
            table.loc[own[0], "value"] = {"profiled-tag": 0.5, "mean-cosine": 0.9}[attack]
            write_table(path, table)
    results = collect(item, "small")
    assert rows_of(results, "token_recovery_mean", "knowing", method="lrp", by="mean-cosine")


def test_references_stand_once_and_are_no_attackers(item):
    results = collect(item, "small")
    for selection, value in (("frequent-words", 0.1), ("unrelated-sentence", 0.15)):
        (row,) = rows_of(results, "token_recovery_mean", "", method="lrp", selection=selection)
        assert row.value == pytest.approx(value)
        assert not [one for one in results.rows if one.attacker and "selection" in one.row]


def test_a_sentence_whose_update_says_nothing_is_counted_and_told_of_the_others(item):
    for run in expand(item, "small"):
        if run.spec.attack.capture.defense.name == "lrp":
            path = run_folder(run.spec) / "scores.csv"
            table, line = pd.read_csv(path), silence_line([0, 1], [0, 1] * 3)
            counted = pd.DataFrame([{"example": line.pop("image"), **line}])
            write_table(path, pd.concat([table[table.trial > 1], counted], ignore_index=True))
            write_json(run_folder(run.spec) / "cards.json", {"trials": 6, "no_information": {"zero update": 2}})
    results = collect(item, "small")
    (counted,) = rows_of(results, "no_information", method="lrp")
    assert counted.note == "2 of 6 updates say nothing of their samples: zero update"
    (mean,) = rows_of(results, "token_recovery_mean", method="lrp")
    assert (mean.n, mean.clusters) == (4, 2)
    (change,) = rows_of(results, "token_recovery_mean", method="lrp", difference="defended - undefended")
    assert (change.n, change.note) == (2, "over 2 of 3 updates: the others say nothing")


def test_stand_ins_are_named(item):
    assert collect(item, "small").substitutes() == ("whole words",)
    assert collect(item, "demo").substitutes() == (
        "whole words", "printed-sentences in place of cola", "reduced setting of scale demo",
    )  # fmt: skip


def test_absent_blocks_have_their_rows(item):
    scales = {**ITEM["scales"], "small": {"absent": {"main": "data not here: CoLA"}}}
    results = collect(Item.model_validate({**ITEM, "scales": scales}), "small")
    assert {row.note for row in results.rows} == {"not run: data not here: CoLA"}
    assert {row.row["method"] for row in results.rows} == {"fedavg", "lrp"}


class TestReadings:
    def test_a_token_counts_as_often_as_the_sentence_has_it(self):
        one = Reading(1, TEXT, "lrp", "tag", False, 1.0, tuple(PRIVATE), ("$", "$", "$", "is", "5", "x"))
        assert one.hits == (True, True, False, True, True, False)
        assert one.in_place == 1

    def test_they_come_by_sentence_and_attacker_each_sentence_with_another_draw(self, item):
        found = sentences_figure.gather(item, "small", collect(item, "small"))
        assert [(one.example, one.group, one.attack) for one in found] == [
            (example, *cell)
            for example in (1, 2)
            for cell in (("fedavg", "tag"), ("lrp", "tag"), ("lrp", "mean-cosine"), ("lrp", "profiled-tag"))
        ]
        assert [one.worst for one in found[:4]] == [False, False, True, False]
        assert {one.factor for one in found if one.group == "lrp" and one.example == 2} == {2.0}

    def test_a_group_that_the_rows_lack_is_named(self, item):
        wrong = item.model_copy(update={"sentences": SentencesLayout(group="defence")})
        with pytest.raises(UserError, match=r"sentences\.group: rows have method"):
            sentences_figure.gather(wrong, "small", collect(item, "small"))

    def test_they_are_kept_beside_the_figure(self, item, tmp_path):
        found = sentences_figure.gather(item, "small", collect(item, "small"))
        sentences_figure.write(tmp_path / "one.npz", found)
        with np.load(tmp_path / "one.npz") as archive:
            assert TEXT in bytes(archive["readings"]).decode()


class TestFigure:
    @pytest.fixture
    def figure(self, item):
        found = sentences_figure.gather(item, "small", collect(item, "small"))
        return sentences_figure.draw(item.sentences, found, "A title", ["a note"])

    @staticmethod
    def texts(figure):
        return [text for text in figure.axes[0].texts if text.get_text()]

    def test_every_word_is_shown_and_marked_by_more_than_color(self, figure):
        words = [text for text in self.texts(figure) if "Mono" in str(text.get_fontfamily())]
        marked = {t.get_text() for t in words if to_hex(t.get_color()) == PALETTE[0].lower()}
        assert marked == {"cost", "the", "$", "5"}
        assert all(t.get_fontweight() == "bold" for t in words if to_hex(t.get_color()) == PALETTE[0].lower())
        missed = [t.get_text() for t in words if to_hex(t.get_color()) == FAINT.lower()]
        assert missed == ["$", "x"] * 8

    def test_counts_and_labels_are_shown(self, figure):
        shown = [text.get_text() for text in self.texts(figure)]
        assert shown.count("5 of 9") == 8
        assert "TAG" in shown
        assert "mean-cosine *" in shown
        assert "a note" in shown

    def test_nothing_is_cut_off_and_no_text_is_too_small(self, figure):
        renderer = FigureCanvasAgg(figure).get_renderer()
        width, height = figure.bbox.width, figure.bbox.height
        for text in self.texts(figure):
            box = text.get_window_extent(renderer)
            assert box.x0 >= 0, text
            assert box.x1 <= width, text
            assert box.y0 >= 0, text
            assert box.y1 <= height, text
            assert text.get_fontsize() >= SMALLEST_FONT
            assert text.get_parse_math() is False

    def test_long_answers_are_wrapped(self, item):
        long = Reading(1, TEXT, "lrp", "tag", False, 1.0, tuple(PRIVATE), ("word",) * 60)
        one = sentences_figure.draw(item.sentences, [long], "A title")
        places = {round(t.get_position()[1], 3) for t in self.texts(one) if t.get_text() == "word"}
        assert len(places) > 3
        renderer = FigureCanvasAgg(one).get_renderer()
        words = [text for text in self.texts(one) if text.get_text() == "word"]
        rightmost = max(text.get_window_extent(renderer).x1 for text in words)
        assert rightmost < one.bbox.width * 0.85


def test_runs_are_found_by_their_ids(item):
    ids = {name for row in collect(item, "small").rows for name in row.runs}
    assert ids == {run_id(run.spec) for run in expand(item, "small")}
