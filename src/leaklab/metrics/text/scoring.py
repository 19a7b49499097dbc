"""All metrics of one sentence or of a batch by name, and what an attacker without any update could answer.

The first of them is token recovery: the share of a sentence's tokens that was found, in any order or in their places.

LRP table 7 prints texts, no numbers. Its outputs have the tokens in another order and more of them than the sentence,
so the counts that go with it (claim LRP-29: 12 of 12 against 4, 8 of 11 against 6) are those of ``token_recovery`` on
word pieces and punctuation: a token of the sentence counts once for each time that it stands in the output. In places,
or as sets, other counts come out.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

from leaklab.captures.truth import TextTrial
from leaklab.data.text.corpus import END, Corpus, Sentences, Vocabulary
from leaklab.metrics.base import LABEL_CARD, MetricCard
from leaklab.metrics.silence import silence_line
from leaklab.metrics.text.sentences import SENTENCE_CARDS, Ids, batch_scores
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.specs.text import TextScoreSpec

_TOKENS = "tokens without padding, start and end: lower-case words and punctuation marks (or word pieces)"

TOKEN_RECOVERY_CARD = MetricCard(
    name="token_recovery",
    unit="",
    better="lower",
    domain=_TOKENS,
    peak=None,
    clamping="none",
    network="",
    input_range="tokens",
    assignment="as multisets: a private token counts if a token of the output is left for it",
    averaging="share per sentence; tables take the mean over sentences",
    note="free of order; frequent words and punctuation count as much as telling ones; more output can only help",
)

POSITION_RECOVERY_CARD = MetricCard(
    name="position_recovery",
    unit="",
    better="lower",
    domain=_TOKENS,
    peak=None,
    clamping="none",
    network="",
    input_range="tokens",
    assignment="by place from the start of the sentence",
    averaging="share per sentence; tables take the mean over sentences",
    note="a sentence that is found but shifted by one place counts as not found",
)


def token_recovery(found: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Return the share of private tokens that recur in the output, whatever their order, in [0, 1].

    Args:
        found: tokens or ids of the output.
        truth: those of the private sentence.

    Raises:
        UserError: a private sentence without tokens.
    """
    return (Counter(found) & Counter(truth)).total() / _length(truth)


def position_recovery(found: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Return the share of private tokens that the output has in the same place, in [0, 1].

    Args:
        found: tokens or ids of the output; it may be longer or shorter.
        truth: those of the private sentence.

    Raises:
        UserError: a private sentence without tokens.
    """
    # an output may be longer or shorter than the sentence: places without a partner count as not found
    same = sum(ours == theirs for ours, theirs in zip(found, truth, strict=False))
    return same / _length(truth)


def _length(truth: Sequence[Hashable]) -> int:
    if not truth:
        raise UserError("a private sentence has no tokens: leave it out of the trials")
    return len(truth)


# ROUGE-1, ROUGE-2 and ROUGE-L of a reconstructed sentence, as the package ``rouge-score`` computes them.

NAMES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
"""Names of the metrics here and in the package."""
_WHAT = {
    "rouge_1": "words in common, each as often as both have it",
    "rouge_2": "pairs of neighbouring words in common",
    "rouge_l": "longest common subsequence of words: gaps allowed, order kept",
}


def rouge_card(name: str) -> MetricCard:
    """Return the card of ``rouge_1``, ``rouge_2`` or ``rouge_l``.

    Raises:
        UserError: another name.
    """
    if name not in NAMES:
        raise UserError(f"no ROUGE metric '{name}': choose from {', '.join(NAMES)}")
    return MetricCard(
        name=name,
        unit="",
        better="lower",
        domain="lower-case runs of the letters a to z and digits; punctuation and all else are dropped",
        peak=None,
        clamping="none",
        network="",
        input_range="text",
        assignment="output against its own private sentence",
        averaging="F-measure (harmonic mean of precision and recall) per sentence; tables take the mean over sentences",
        note=f"{_WHAT[name]}; package rouge-score, no stemming",
    )


def rouge(found: str, truth: str) -> dict[str, float]:
    """Return the F-measures in [0, 1] by the names of ``NAMES``; 0 where either text has no word.

    Args:
        found: the output, tokens joined by spaces will do.
        truth: the private sentence.

    Raises:
        UserError: rouge-score is not installed.
    """
    scores = _scorer().score(truth, found)
    return {ours: float(scores[theirs].fmeasure) for ours, theirs in NAMES.items()}


@cache
def _scorer() -> Any:
    try:
        package = import_module("rouge_score.rouge_scorer")
    except ImportError:
        raise UserError("ROUGE needs rouge-score: install it with 'pip install rouge-score'") from None
    return package.RougeScorer(list(NAMES.values()), use_stemmer=False)


OWN_CHOICE, FREQUENT_WORDS, UNRELATED_SENTENCE = "best-by-loss", "frequent-words", "unrelated-sentence"
SELECTIONS = {
    OWN_CHOICE: "the start with the smallest matching loss: what a real attacker has",
    FREQUENT_WORDS: "the most frequent tokens, as many as the sentence has: what can be said without any update",
    UNRELATED_SENTENCE: "another sentence of the data set, drawn by a stream named after the private one",
}


def text_cards(metrics: Sequence[str]) -> tuple[MetricCard, ...]:
    """Return the cards of metrics by name (``specs/text.py::TextMetric``)."""
    own = {card.name: card for card in (TOKEN_RECOVERY_CARD, POSITION_RECOVERY_CARD, *SENTENCE_CARDS)}
    return tuple(own[name] if name in own else rouge_card(name) for name in metrics)


def sentence_scores(found: Sequence[str], truth: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
    """Return metric -> value in [0, 1] of one output, both as tokens; metrics of whole sentences are left out."""
    scores = {
        TOKEN_RECOVERY_CARD.name: token_recovery(found, truth),
        POSITION_RECOVERY_CARD.name: position_recovery(found, truth),
    }
    if set(metrics) & set(NAMES):
        scores |= rouge(" ".join(found), " ".join(truth))
    return {name: scores[name] for name in metrics if name in scores}


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
        found: for each trial ``tokens`` (ids) and ``label``; of a batch also ``sentences`` and which are ``certified``.
        silent: trials whose update says nothing; they have a text without anything read, and no line but their count.
    """
    lines: list[Line] = []
    texts: list[Line] = []
    for number, (trial, guess) in enumerate(zip(trials, found, strict=True)):
        batch = [sentence.ids for sentence in trial.batch]
        truth, read = (corpus.vocabulary.decode(ids) for ids in (tuple(chain(*batch)), guess["tokens"]))
        place = {"trial": number, "example": trial.example, "draw": trial.draw}
        text = "\n".join(sentence.text for sentence in trial.batch)
        texts.append({**place, "text": text, "private": truth, "read": read, "factor": _factor(spec, trial)})
        if number in silent:
            continue
        of_sentences = {OWN_CHOICE: _of_sentences(guess, batch, spec.metrics)}
        for selection, answer in {OWN_CHOICE: read, **_references(spec, corpus, trial, len(truth))}.items():
            scores = sentence_scores(answer, truth, spec.metrics) | of_sentences.get(selection, {})
            lines += [{**place, "selection": selection, "metric": m, "value": v} for m, v in scores.items()]
        if not trial.others:
            correct = float(guess["label"] == trial.label)
            lines.append({**place, "selection": OWN_CHOICE, "metric": LABEL_CARD.name, "value": correct})
    if silent:
        line = silence_line(silent, [trial.draw for trial in trials])
        lines.append({"trial": line["trial"], "example": line.pop("image"), **line})
    return lines, texts


def _of_sentences(guess: Mapping[str, Any], batch: Sequence[Ids], metrics: Sequence[str]) -> dict[str, float]:
    sentences = [tuple(sentence) for sentence in guess.get("sentences", [guess["tokens"]])]
    return batch_scores(sentences, guess.get("certified", [False] * len(sentences)), batch, metrics)


def _references(spec: TextScoreSpec, corpus: Corpus, trial: TextTrial, length: int) -> dict[str, tuple[str, ...]]:
    """Return the two reference answers to a batch of ``length`` tokens."""
    seed = spec.attack.capture.sentences.seed
    answers = [
        reference_sentences(corpus.vocabulary, corpus.sentences, sentence.sentence, length, seed)
        for sentence in trial.batch
    ]
    other = tuple(chain.from_iterable(answer[UNRELATED_SENTENCE] for answer in answers))
    return {FREQUENT_WORDS: answers[0][FREQUENT_WORDS], UNRELATED_SENTENCE: other}


def _factor(spec: TextScoreSpec, trial: TextTrial) -> float:
    """Return the rate really used over the rate that the server assumed: what LRP hides."""
    capture = spec.attack.capture
    return sum(trial.rates) / (capture.rate * capture.local_steps)
