"""The road of a sentence: capture, attack and score as the rules run them, with their files and records."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from leaklab.captures.truth import load_text_truth
from leaklab.data.text.corpus import PRINTED, Vocabulary, split
from leaklab.records.files import read_json, read_table, write_json
from leaklab.steps import attack_text, capture_text, join_pieces, score_text, text_piece
from leaklab.steps.base import main

CAPTURE = {
    "dataset": "words",
    "sentences": {},
    "draws": 2,
    "model": {"name": "bert-classifier", "layers": 1, "width": 16, "heads": 1, "positions": 16, "spread": 0.1},
    "defense": "lrp",
    "client_weight": 2.0,
}
METRICS = ["token_recovery", "position_recovery", "rouge_l"]

FAILURES = [np.linalg.LinAlgError("SVD did not converge"), torch.linalg.LinAlgError("linalg.svd: failed to converge")]


class Killed(BaseException):
    """Stands for a signal."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "words.json"
    vocabulary = Vocabulary.build([*PRINTED.texts, "some other words that nobody said"])
    card = {"name": "words", "num_classes": 2, "texts": PRINTED.texts, "labels": PRINTED.labels}
    write_json(path, {**card, "vocabulary": vocabulary.tokens, "substitute": "few words"})
    return path


@pytest.fixture(scope="module")
def captured(step, corpus, tmp_path_factory):
    outputs = {"observation": "observation.safetensors", "facts": "facts.json", "truth": "truth.json"}
    return step(capture_text, tmp_path_factory.mktemp("capture"), CAPTURE, {"corpus": corpus}, outputs)


@pytest.fixture(scope="module")
def attack(step, captured):
    def run(folder, name="token-order", **changes):
        spec = {"attack": name, "iterations": 6, **changes}
        inputs = {name: captured[name] for name in ("observation", "facts")}
        outputs = {"reconstruction": "reconstruction.json", "trials": "trials.csv"}
        return step(attack_text, folder, spec, inputs, outputs)

    return run


@pytest.fixture(scope="module")
def score(step, captured, corpus):
    def run(found, folder):
        spec = {"attack": {"capture": CAPTURE, "attack": "token-order", "iterations": 6}, "metrics": METRICS}
        inputs = {**found, "truth": captured["truth"], "corpus": corpus}
        outputs = {"scores": "scores.csv", "texts": "texts.json", "cards": "cards.json"}
        return step(score_text, folder, spec, inputs, outputs)

    return run


def test_sentences_whose_updates_say_nothing_are_counted_and_not_read(captured, attack, score, tmp_path):
    facts = read_json(captured["facts"])
    assert "silent" not in facts
    try:
        write_json(captured["facts"], {**facts, "silent": {"1": "zero update", "2": "update below rounding"}})
        found = attack(tmp_path)
        files = score(found, tmp_path / "score")
    finally:
        write_json(captured["facts"], facts)
    assert read_json(found["reconstruction"])["trials"][1] == {"tokens": [], "label": -1}
    assert read_table(found["trials"]).stopped.tolist() == ["read", "zero update", "update below rounding", "read"]
    table = read_table(files["scores"])
    (line,) = table[table.metric == "no_information"].to_dict("records")
    assert (line["trial"], line["example"], line["value"]) == (1, -1, 2.0)
    assert set(table[table.metric != "no_information"].trial) == {0, 3}
    assert read_json(files["cards"])["no_information"] == {"zero update": 1, "update below rounding": 1}


@pytest.mark.parametrize("error", FAILURES, ids=["numpy", "torch"])
def test_a_trial_without_a_decomposition_is_lost_and_no_other(attack, score, tmp_path, monkeypatch, error):
    whole = read_json(attack(tmp_path / "whole")["reconstruction"])["trials"]
    load = attack_text.plugins.load

    def failing(*names):
        """Load the attack, which fails in trial 1."""
        read = load(*names)

        def reconstruct(case):
            if case.observation.trials == (1,):
                raise error
            return read.reconstruct(case)

        return SimpleNamespace(reconstruct=reconstruct)

    monkeypatch.setattr(attack_text.plugins, "load", failing)
    found = attack(tmp_path / "failing")
    monkeypatch.undo()
    trials = read_json(found["reconstruction"])["trials"]
    assert trials[1] == {"tokens": [], "label": -1}
    assert [*trials[:1], *trials[2:]] == [*whole[:1], *whole[2:]]
    starts = read_table(found["trials"])
    assert starts.diverged.tolist() == [False, True, False, False]
    assert starts.stopped[1] == "diverged"
    table = read_table(score(found, tmp_path / "score")["scores"])
    own = table[(table.selection == "best-by-loss") & (table.trial == 1)]
    assert set(own.value) == {0.0}


def test_linear_equations_read_both_sentences_under_lrp(attack, score, tmp_path):
    files = score(attack(tmp_path), tmp_path / "score")
    table = read_table(files["scores"])
    own = table[table.selection == "best-by-loss"]
    assert set(own.metric) == {*METRICS, "label_correct"}
    assert (own.value == 1).all()
    assert len(own) == 4 * 4
    others = table[(table.selection != "best-by-loss") & (table.metric == "position_recovery")]
    assert set(others.selection) == {"frequent-words", "unrelated-sentence"}
    assert (others.value < 0.5).all()


def test_the_texts_hold_sentence_answer_and_factor(attack, score, captured, tmp_path):
    files = score(attack(tmp_path), tmp_path / "score")
    truth = load_text_truth(captured["truth"])
    texts = read_json(files["texts"])["trials"]
    assert [(t["example"], t["draw"]) for t in texts] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    for text, trial in zip(texts, truth, strict=True):
        assert text["text"] == PRINTED.texts[trial.example - 1]
        assert text["read"] == text["private"] == list(split(text["text"]))
        assert text["factor"] == pytest.approx(trial.rates[0] / 0.01)
    cards = read_json(files["cards"])
    assert set(cards["metrics"]) == {*METRICS, "label_correct"}
    assert set(cards["selections"]) == set(read_table(files["scores"]).selection)
    assert cards["substitute"] == "few words"


def test_a_search_leaves_a_record_per_start(attack, captured, tmp_path):
    files = attack(tmp_path, "tag", restarts=2)
    table = read_table(files["trials"])
    assert table[["trial", "start"]].to_numpy().tolist() == [[t, s] for t in range(4) for s in range(2)]
    assert table.groupby("trial").chosen.sum().tolist() == [1] * 4
    facts = read_json(tmp_path / "run.json")["facts"]
    assert facts["evaluations"] == table.evaluations.sum() == 4 * 2 * 6
    assert facts["sentences_resumed"] == 0
    found = read_json(files["reconstruction"])["trials"]
    lengths = [len(trial.ids) for trial in load_text_truth(captured["truth"])]
    assert [len(trial["tokens"]) for trial in found] == lengths


def test_a_killed_attack_goes_on_and_ends_with_the_same_bytes(attack, tmp_path, monkeypatch):
    whole = attack(tmp_path / "whole", "tag")
    packed, done = attack_text.packed, []

    def killed_in_the_third_sentence(found):
        if len(done) == 2:
            raise Killed
        done.append(found)
        return packed(found)

    monkeypatch.setattr(attack_text, "packed", killed_in_the_third_sentence)
    with pytest.raises(Killed):
        attack(tmp_path / "killed", "tag")
    monkeypatch.setattr(attack_text, "packed", packed)
    again = attack(tmp_path / "killed", "tag")
    assert read_json(tmp_path / "killed/run.json")["facts"]["sentences_resumed"] == 2
    for name, path in whole.items():
        assert path.read_bytes() == again[name].read_bytes(), name
    assert not (tmp_path / "killed/checkpoint.safetensors").exists()


@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_an_attack_in_pieces_ends_with_the_same_bytes(attack, step, captured, tmp_path, pieces):
    whole, folder = attack(tmp_path / "whole", "tag"), tmp_path / "cut"
    spec = read_json(tmp_path / "whole/run.json")["spec"]
    inputs = {name: captured[name] for name in ("observation", "facts")}
    parts = {}
    for number in reversed(range(pieces)):
        told = {"piece": number, "pieces": pieces, "spec": spec}
        parts[f"part={number}"] = step(text_piece, folder, told, inputs, {"part": f"piece-{number}.safetensors"})
        assert not (folder / "reconstruction.json").exists()
    write = ["--output", f"checkpoint={folder}/checkpoint.safetensors", f"run={tmp_path}/joined.json"]
    main("join_pieces", join_pieces.run, ["--input", *(f"part={one['part']}" for one in parts.values()), *write])
    again = attack(folder, "tag")
    assert read_json(folder / "run.json")["facts"]["sentences_resumed"] == 4
    for name, path in whole.items():
        assert path.read_bytes() == again[name].read_bytes(), name


def test_known_labels_that_are_withheld_stop_with_one_line(attack, tmp_path):
    with pytest.raises(SystemExit, match=r"leaklab attack_text: .* needs 'labels', which threat model"):
        attack(tmp_path, "tag", labels="known")


def test_a_batch_goes_the_whole_road_sentence_by_sentence(step, corpus, tmp_path):
    model = {"name": "gpt2", "layers": 2, "width": 64, "heads": 4, "positions": 16, "loss": "next-token", "rank": 8}
    capture = {"dataset": "words", "sentences": {}, "batch_size": 2, "dtype": "float64", "rate": 1.0}
    capture |= {"model": model | {"lora": "trained"}}
    outputs = {"observation": "observation.safetensors", "facts": "facts.json", "truth": "truth.json"}
    captured = step(capture_text, tmp_path / "capture", capture, {"corpus": corpus}, outputs)
    inputs = {name: captured[name] for name in ("observation", "facts")}
    outputs = {"reconstruction": "reconstruction.json", "trials": "trials.csv"}
    found = step(attack_text, tmp_path / "attack", {"attack": "span-reading"}, inputs, outputs)
    (trial,) = load_text_truth(captured["truth"])
    (read,) = read_json(found["reconstruction"])["trials"]
    assert {tuple(one) for one in read["sentences"]} == {one.ids for one in trial.batch}
    spec = {
        "attack": {"capture": capture, "attack": "span-reading"},
        "metrics": ["token_recovery", "sentences_exact", "sentences_certified", "false_certificates"],
    }
    outputs = {"scores": "scores.csv", "texts": "texts.json", "cards": "cards.json"}
    files = step(score_text, tmp_path / "score", spec, {**found, "truth": captured["truth"], "corpus": corpus}, outputs)
    table = read_table(files["scores"])
    own = table[table.selection == "best-by-loss"].set_index("metric").value
    assert own.to_dict() == {m: 0.0 if m == "false_certificates" else 1.0 for m in spec["metrics"]}
    assert set(table[table.selection != "best-by-loss"].metric) == {"token_recovery"}
    (text,) = read_json(files["texts"])["trials"]
    assert text["text"].split("\n") == list(PRINTED.texts)
