"""All metrics of one sentence by name, and what an attacker without any update could answer."""

from collections.abc import Mapping, Sequence

from leaklab.data.text.cola import Sentences
from leaklab.data.text.vocabulary import END, Vocabulary
from leaklab.metrics.base import MetricCard
from leaklab.metrics.text.recovery import (
    POSITION_RECOVERY_CARD,
    TOKEN_RECOVERY_CARD,
    position_recovery,
    token_recovery,
)
from leaklab.metrics.text.rouge import NAMES, rouge, rouge_card
from leaklab.records.draws import draws

OWN_CHOICE, FREQUENT_WORDS, UNRELATED_SENTENCE = "best-by-loss", "frequent-words", "unrelated-sentence"
SELECTIONS = {
    OWN_CHOICE: "the start with the smallest matching loss: what a real attacker has",
    FREQUENT_WORDS: "the most frequent tokens, as many as the sentence has: what can be said without any update",
    UNRELATED_SENTENCE: "another sentence of the data set, drawn by a stream named after the private one",
}


def text_cards(metrics: Sequence[str]) -> tuple[MetricCard, ...]:
    """Return the cards of metrics by name (``records/text_specs.py::TextMetric``)."""
    own = {card.name: card for card in (TOKEN_RECOVERY_CARD, POSITION_RECOVERY_CARD)}
    return tuple(own[name] if name in own else rouge_card(name) for name in metrics)


def sentence_scores(found: Sequence[str], truth: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
    """Return metric -> value in [0, 1] of one output, both as tokens."""
    scores = {
        TOKEN_RECOVERY_CARD.name: token_recovery(found, truth),
        POSITION_RECOVERY_CARD.name: position_recovery(found, truth),
    }
    if set(metrics) & set(NAMES):
        scores |= rouge(" ".join(found), " ".join(truth))
    return {name: scores[name] for name in metrics}


def reference_sentences(
    vocabulary: Vocabulary, sentences: Sentences, private: int, length: int, seed: int
) -> Mapping[str, tuple[str, ...]]:
    """Return the two reference answers for one private sentence, as tokens.

    Args:
        vocabulary: its words stand by falling frequency.
        sentences: the data set.
        private: place of the private sentence.
        length: its tokens without start and end.
        seed: of the unrelated sentence's stream.
    """
    first = END + 1
    frequent = vocabulary.decode(range(first, min(first + length, len(vocabulary))))
    # a shift by at least one place never returns the private sentence itself
    shift = 1 + int(draws(seed, "unrelated sentence", private).integers(0, max(len(sentences.texts) - 1, 1)))
    other = sentences.texts[(private + shift) % len(sentences.texts)]
    return {FREQUENT_WORDS: frequent, UNRELATED_SENTENCE: vocabulary.decode(vocabulary.encode(other))}
