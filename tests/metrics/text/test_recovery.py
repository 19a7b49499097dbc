"""Token recovery on the printed outputs of LRP table 7, and ROUGE on cases counted by hand."""

import pytest

from leaklab.metrics.text.scoring import (
    NAMES,
    POSITION_RECOVERY_CARD,
    TOKEN_RECOVERY_CARD,
    position_recovery,
    rouge,
    rouge_card,
    token_recovery,
)
from leaklab.records.errors import UserError

FIRST = ["one", "more", "pseudo", "general", "##ization", "and", "i", "'", "m", "giving", "up", "."]
SECOND = ["the", "more", "we", "study", "verbs", ",", "the", "crazier", "they", "get", "."]
PRINTED = [
    (FIRST, "i m ' 5 one ##ization more giving five pseudo up general and .", 12),
    (FIRST, '20 general , organize a " interaction 3 and . . ##ization 184', 4),
    (SECOND, 'they study the verbs get we , . " 46 . they', 8),
    (SECOND, "anderson 20 , , the 23 20 more verbs 15 we 266 the", 6),
]


@pytest.mark.parametrize(("truth", "found", "count"), PRINTED)
def test_the_printed_outputs_have_the_counts_of_the_claim(truth, found, count):
    assert (len(FIRST), len(SECOND)) == (12, 11)
    assert token_recovery(found.split(), truth) == pytest.approx(count / len(truth))


def test_neither_places_nor_sets_give_those_counts():
    by_place = [position_recovery(found.split(), truth) * len(truth) for truth, found, _ in PRINTED]
    as_sets = [len(set(truth) & set(found.split())) for truth, found, _ in PRINTED]
    counts = [count for _, _, count in PRINTED]
    assert all(place < count for place, count in zip(by_place, counts, strict=True))
    assert as_sets != counts


def test_a_token_counts_as_often_as_both_have_it():
    assert token_recovery(["a", "a", "b"], ["a", "c", "a", "a"]) == 0.5
    assert token_recovery([3, 2, 1], [1, 2, 3]) == 1
    assert token_recovery([], ["a"]) == 0


def test_places_count_from_the_start():
    assert position_recovery(["a", "b", "c"], ["a", "x", "c", "d"]) == 0.5
    assert position_recovery(["x", "a", "b"], ["a", "b"]) == 0
    assert position_recovery(["a", "b", "more"], ["a", "b"]) == 1


def test_a_sentence_without_tokens_is_refused():
    for metric in (token_recovery, position_recovery):
        with pytest.raises(UserError, match="no tokens"):
            metric(["a"], [])


def harmonic(precision, recall):
    return 2 * precision * recall / (precision + recall)


# found, truth, (precision, recall) of single words, pairs of neighbours, longest common subsequence
BY_HAND = [
    ("the cat sat", "the cat sat", (1, 1), (1, 1), (1, 1)),
    ("the cat", "the cat sat", (1, 2 / 3), (1, 1 / 2), (1, 2 / 3)),
    ("the cat sat on it", "the cat sat", (3 / 5, 1), (2 / 4, 1), (3 / 5, 1)),
    ("sat cat the", "the cat sat", (1, 1), None, (1 / 3, 1 / 3)),
    ("the the the", "the cat", (1 / 3, 1 / 2), None, (1 / 3, 1 / 2)),
    ("the the cat", "the cat the cat", (1, 3 / 4), (1 / 2, 1 / 3), (1, 3 / 4)),
    ("a b c d e", "a x b y c", (3 / 5, 3 / 5), None, (3 / 5, 3 / 5)),
    ("e d c b a", "a b c d e", (1, 1), None, (1 / 5, 1 / 5)),
    ("police killed the gunman", "police kill the gunman", (3 / 4, 3 / 4), (1 / 3, 1 / 3), (3 / 4, 3 / 4)),
    ("the gunman kill police", "police killed the gunman", (3 / 4, 3 / 4), (1 / 3, 1 / 3), (2 / 4, 2 / 4)),
    ("I'm giving UP!", "i ' m giving up .", (1, 1), (1, 1), (1, 1)),
    ("giving up i'm", "I'm giving up.", (1, 1), (2 / 3, 2 / 3), (2 / 4, 2 / 4)),
    ("running runs", "run running", (1 / 2, 1 / 2), None, (1 / 2, 1 / 2)),
    ("one two", "three four", None, None, None),
    ("", "one", None, None, None),
    (", . !", "one", None, None, None),
    ("one", "one", (1, 1), None, (1, 1)),
    ("a b a b", "b a b a", (1, 1), (2 / 3, 2 / 3), (3 / 4, 3 / 4)),
    ("x 12 3rd", "12 3rd", (2 / 3, 1), (1 / 2, 1), (2 / 3, 1)),
    (
        "more we study verbs they get",
        "the more we study verbs the crazier they get",
        (1, 6 / 9),
        (4 / 5, 4 / 8),
        (1, 6 / 9),
    ),
]


@pytest.mark.parametrize(("found", "truth", "ones", "twos", "longest"), BY_HAND)
def test_f19_rouge_on_cases_counted_by_hand(found, truth, ones, twos, longest):
    expected = [0.0 if pair is None else harmonic(*pair) for pair in (ones, twos, longest)]
    assert list(rouge(found, truth).values()) == pytest.approx(expected, abs=1e-6)


def test_every_number_has_its_card():
    assert (TOKEN_RECOVERY_CARD.name, POSITION_RECOVERY_CARD.name) == ("token_recovery", "position_recovery")
    assert [rouge_card(name).name for name in NAMES] == ["rouge_1", "rouge_2", "rouge_l"] == list(rouge("a", "a"))
    with pytest.raises(UserError, match="choose from rouge_1, rouge_2, rouge_l"):
        rouge_card("rouge_3")
