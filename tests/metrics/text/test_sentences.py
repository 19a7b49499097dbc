"""Whole sentences of a batch: exact ones, certified ones, and certificates that are wrong."""

from leaklab.metrics.text.sentences import SENTENCE_CARDS, batch_scores

NAMES = ("sentences_exact", "sentences_certified", "false_certificates")
A, B, C = (2, 7, 3), (2, 8, 3), (2, 9, 9, 3)


def scores(found, certified, truth):
    return tuple(batch_scores(found, certified, truth, NAMES)[name] for name in NAMES)


def test_the_order_of_a_batch_does_not_count():
    assert scores([C, A], [True, True], [A, C]) == (1, 1, 0)


def test_what_is_not_certified_is_exact_all_the_same():
    assert scores([A, B], [False, True], [A, B]) == (1, 0.5, 0)


def test_a_sentence_that_is_read_besides_is_a_false_certificate_once():
    assert scores([A, C, C], [True, True, True], [A, B]) == (0.5, 0.5, 1)
    assert scores([A, C], [True, False], [A, B]) == (0.5, 0.5, 0)


def test_words_in_another_order_are_another_sentence():
    assert scores([(2, 8, 7, 3)], [True], [(2, 7, 8, 3)]) == (0, 0, 1)


def test_nothing_read_is_nothing_certified():
    assert scores([], [], [A, A]) == (0, 0, 0)


def test_equal_private_sentences_count_each():
    assert scores([A], [True], [A, A, B, C]) == (0.5, 0.5, 0)


def test_metrics_of_tokens_are_left_out():
    assert list(batch_scores([A], [True], [A], ("token_recovery", "sentences_exact"))) == ["sentences_exact"]
    assert [card.name for card in SENTENCE_CARDS] == list(NAMES)
