"""The benchmark of exact reading: fresh batches of every kind, and rows that say what was found."""

import pytest
from text_exact.__main__ import Texts, Trial, attempt, fresh, line

from leaklab.records.errors import UserError
from leaklab.records.streams import stream

ROWS = [(2, *(stream(n, "row").integers(4, 900, 6 + n % 9) + 0).tolist(), 3) for n in range(40)]


@pytest.fixture(scope="module")
def texts():
    return Texts(ROWS, ROWS)


def test_fresh_batches_are_of_all_kinds_and_give_no_false_certificate(texts):
    trials = list(fresh(24))
    assert {trial.family for trial in trials} == {"GPT-2", "Llama", "BERT"}
    assert {trial.settings.get("loss", "classes") for trial in trials} == {"classes", "next-token"}
    assert any("rank" in trial.settings for trial in trials)
    proven = 0
    for trial in trials:
        one = attempt(trial, texts)
        proven += one["proven"]
        assert not one["proven"] or one["found"] == one["true"], trial
    assert proven >= 12


def test_a_row_tells_right_from_false():
    trial = Trial("GPT-2", 2, 3, {"width": 64, "loss": "next-token", "rank": 4})
    one = {"true": {(5, 6, 7), (5, 8, 9)}, "found": {(5, 6, 7), (5, 8, 8)}, "proven": False, "way": "sparse"}
    assert line(trial, one | {"seconds": 1.25}) == (
        "| GPT-2 64, LoRA 4 B = 0 | next token | 2 x 3 | 5 | 1 of 2 | 1 | no | sparse | 1.2 |"
    )


def test_a_batch_has_the_length_that_is_asked_and_no_sentence_twice(texts):
    assert texts.batch(Trial("", 6, 7), 1).shape == (6, 7)
    assert len({tuple(row) for row in texts.batch(Trial("", 6, 40), 1).tolist()}) == 6
    whole = texts.batch(Trial("", 5, 0), 2).tolist()
    assert {row[0] for row in whole} == {2}
    assert all(3 in row for row in whole)


def test_without_a_mirror_it_says_what_to_do(monkeypatch):
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    with pytest.raises(UserError, match="set LEAKLAB_MIRROR"):
        Texts.cola()
