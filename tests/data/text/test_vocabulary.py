"""The rule for tokens, the vocabulary's order, the round trip, and batches."""

import pytest
import torch

from leaklab.data.text.corpus import END, PADDING, PRINTED, SPECIAL, START, UNKNOWN, Vocabulary, encode_batch, split
from leaklab.records.errors import UserError

CORPUS = ("b b b, a a!", "c c a d", "Z")


def test_the_rule():
    found = split("I\u2019m GIVING up--\u201cnow\u201d, 3rd snake_case.")
    assert " ".join(found) == """i ' m giving up - - " now " , 3rd snake _ case ."""
    assert split(" Caf\u00e9\tna\u00efve\n") == ("caf\u00e9", "na\u00efve")
    assert split("[PAD]") == ("[", "pad", "]")


def test_no_visible_character_is_lost():
    for text in (*PRINTED.texts, *CORPUS, "a_b__c \u4e2d\u6587 x\u00b2 \U0001f600?!"):
        assert "".join(split(text)) == "".join(text.lower().split())


def test_words_come_by_frequency_then_alphabet():
    vocabulary = Vocabulary.build(CORPUS)
    assert vocabulary.tokens == (*SPECIAL, "a", "b", "c", "!", ",", "d", "z")
    assert Vocabulary.build(reversed(CORPUS)) == vocabulary
    assert Vocabulary.build(CORPUS, smallest_count=2).tokens == (*SPECIAL, "a", "b", "c")


def test_the_round_trip_on_its_own_corpus():
    vocabulary = Vocabulary.build(PRINTED.texts)
    for text in PRINTED.texts:
        ids = vocabulary.encode(text)
        assert (ids[0], ids[-1]) == (START, END)
        assert not {PADDING, UNKNOWN, START, END} & set(ids[1:-1])
        assert vocabulary.decode(ids) == split(text)
    assert " ".join(vocabulary.decode(vocabulary.encode(PRINTED.texts[0]))) == (
        "one more pseudo generalization and i ' m giving up ."
    )


def test_unknown_words_are_unknown():
    vocabulary = Vocabulary.build(CORPUS)
    assert vocabulary.encode("a q") == (START, 4, UNKNOWN, END)
    assert vocabulary.decode((START, 4, UNKNOWN, END, PADDING)) == ("a", "[UNK]")


def test_batches_are_padded_and_masked():
    vocabulary = Vocabulary.build(CORPUS)
    batch = encode_batch(vocabulary, ["a b", "c"], length=6)
    assert batch.ids.tolist() == [[2, 4, 5, 3, 0, 0], [2, 6, 3, 0, 0, 0]]
    assert batch.mask.tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]]
    assert batch.lengths.tolist() == [4, 3]
    assert batch.ids.dtype == batch.mask.dtype == torch.int64
    assert encode_batch(vocabulary, ["a b", "c"]).ids.shape == (2, 4)


def test_bad_input_is_refused():
    vocabulary = Vocabulary.build(CORPUS)
    for wrong, message in (
        (lambda: Vocabulary.build([]), "give more sentences"),
        (lambda: Vocabulary.build(CORPUS, smallest_count=9), "give more sentences"),
        (lambda: Vocabulary(("a", "b")), "a vocabulary begins with"),
        (lambda: Vocabulary((*SPECIAL, "a", "a")), "no token twice"),
        (lambda: vocabulary.decode([len(vocabulary)]), "outside the vocabulary of 11"),
        (lambda: vocabulary.decode([-1]), "outside the vocabulary"),
        (lambda: encode_batch(vocabulary, []), "give at least one"),
        (lambda: encode_batch(vocabulary, ["a b c"], length=4), "has 5 tokens"),
    ):
        with pytest.raises(UserError, match=message):
            wrong()
