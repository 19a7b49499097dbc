"""Scores of a sentence by name, and the two answers of who saw no update."""

import pytest

from leaklab.data.text.corpus import Sentences, Vocabulary
from leaklab.metrics.text.scoring import (
    position_recovery,
    reference_sentences,
    rouge,
    sentence_scores,
    text_cards,
    token_recovery,
)

NAMES = ("rouge_l", "token_recovery", "position_recovery")
TRUTH, FOUND = ("a", "b", "c", "a"), ("c", "a", "b", "x", "a")


def test_a_sentence_is_scored_by_each_metric_that_is_asked_for():
    scores = sentence_scores(FOUND, TRUTH, NAMES)
    assert list(scores) == list(NAMES)
    assert scores["token_recovery"] == token_recovery(FOUND, TRUTH) == 1
    assert scores["position_recovery"] == position_recovery(FOUND, TRUTH) == 0
    assert scores["rouge_l"] == rouge("c a b x a", "a b c a")["rouge_l"]
    assert list(sentence_scores(FOUND, TRUTH, ("token_recovery",))) == ["token_recovery"]


def test_the_sentence_itself_scores_one():
    assert sentence_scores(TRUTH, TRUTH, NAMES) == dict.fromkeys(NAMES, 1)


def test_every_number_has_its_card():
    cards = text_cards((*NAMES, "rouge_1", "rouge_2"))
    assert [card.name for card in cards] == [*NAMES, "rouge_1", "rouge_2"]
    assert {card.better for card in cards} == {"lower"}


@pytest.fixture
def corpus():
    sentences = Sentences(("b b b a a d", "c c a", "a e"), (0, 1, 1))
    return Vocabulary.build(sentences.texts), sentences


def test_the_frequent_answer_is_as_long_as_the_sentence(corpus):
    for length, expected in ((2, ("a", "b")), (3, ("a", "b", "c")), (9, ("a", "b", "c", "d", "e"))):
        assert reference_sentences(*corpus, 1, length, 0)["frequent-words"] == expected


def test_the_unrelated_answer_is_another_sentence_of_the_private_ones_own_stream(corpus):
    for private in range(3):
        answers = {reference_sentences(*corpus, private, 2, seed)["unrelated-sentence"] for seed in range(20)}
        others = {tuple(text.split()) for place, text in enumerate(corpus[1].texts) if place != private}
        assert answers == others
        first, second = (reference_sentences(*corpus, private, length, 7) for length in (2, 4))
        assert first["unrelated-sentence"] == second["unrelated-sentence"]
