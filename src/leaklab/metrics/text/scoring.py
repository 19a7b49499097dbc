"""All metrics of one sentence by name, and what an attacker without any update could answer."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leaklab.captures.truth import TextTrial
from leaklab.data.text.corpus import Corpus
from leaklab.data.text.readers import Sentences
from leaklab.data.text.vocabulary import END, Vocabulary
from leaklab.metrics.base import LABEL_CARD, MetricCard
from leaklab.metrics.silence import silence_line
from leaklab.metrics.text.recovery import (
    NAMES,
    POSITION_RECOVERY_CARD,
    TOKEN_RECOVERY_CARD,
    position_recovery,
    rouge,
    rouge_card,
    token_recovery,
)
from leaklab.records.draws import draws
from leaklab.specs.text import TextScoreSpec

OWN_CHOICE, FREQUENT_WORDS, UNRELATED_SENTENCE = "best-by-loss", "frequent-words", "unrelated-sentence"
SELECTIONS = {
    OWN_CHOICE: "the start with the smallest matching loss: what a real attacker has",
    FREQUENT_WORDS: "the most frequent tokens, as many as the sentence has: what can be said without any update",
    UNRELATED_SENTENCE: "another sentence of the data set, drawn by a stream named after the private one",
}


def text_cards(metrics: Sequence[str]) -> tuple[MetricCard, ...]:
    """Return the cards of metrics by name (``specs/text.py::TextMetric``)."""
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


# From what an attack read to the long score table and to the texts behind it, trial by trial.

Line = dict[str, Any]


def score_trials(
    spec: TextScoreSpec,
    corpus: Corpus,
    trials: Sequence[TextTrial],
    found: Sequence[Mapping[str, Any]],
    silent: Collection[int] = (),
) -> tuple[list[Line], list[Line]]:
    """Return the lines of ``scores.csv`` and those of ``texts.json``.

    Args:
        spec: which metrics.
        corpus: gives tokens their texts, and the references.
        trials: the private side.
        found: for each trial ``tokens`` (ids) and ``label``.
        silent: trials whose update says nothing; they have a text without anything read, and no line but their count.
    """
    lines: list[Line] = []
    texts: list[Line] = []
    for number, (trial, guess) in enumerate(zip(trials, found, strict=True)):
        truth, read = (corpus.vocabulary.decode(ids) for ids in (trial.ids, guess["tokens"]))
        place = {"trial": number, "example": trial.example, "draw": trial.draw}
        texts.append({**place, "text": trial.text, "private": truth, "read": read, "factor": _factor(spec, trial)})
        if number in silent:
            continue
        seed = spec.attack.capture.sentences.seed
        references = reference_sentences(corpus.vocabulary, corpus.sentences, trial.sentence, len(truth), seed)
        for selection, answer in {OWN_CHOICE: read, **references}.items():
            scores = sentence_scores(answer, truth, spec.metrics)
            lines += [{**place, "selection": selection, "metric": m, "value": v} for m, v in scores.items()]
        correct = float(guess["label"] == trial.label)
        lines.append({**place, "selection": OWN_CHOICE, "metric": LABEL_CARD.name, "value": correct})
    if silent:
        line = silence_line(silent, [trial.draw for trial in trials])
        lines.append({"trial": line["trial"], "example": line.pop("image"), **line})
    return lines, texts


def _factor(spec: TextScoreSpec, trial: TextTrial) -> float:
    """Return the rate really used over the rate that the server assumed: what LRP hides."""
    capture = spec.attack.capture
    return sum(trial.rates) / (capture.rate * capture.local_steps)
