"""Token recovery: the share of a sentence's tokens that the attack found, in any order or in their places.

LRP table 7 prints texts, no numbers. Its outputs have the tokens in another order and more of them than the sentence,
so the counts that go with it (claim LRP-29: 12 of 12 against 4, 8 of 11 against 6) are those of ``token_recovery`` on
word pieces and punctuation: a token of the sentence counts once for each time that it stands in the output. In places,
or as sets, other counts come out.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from leaklab.metrics.base import MetricCard
from leaklab.records.errors import UserError

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
