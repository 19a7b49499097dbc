"""ROUGE-1, ROUGE-2 and ROUGE-L of a reconstructed sentence, as the package ``rouge-score`` computes them.

Source: C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.
"""

from functools import cache
from importlib import import_module
from typing import Any

from leaklab.metrics.base import MetricCard
from leaklab.records.errors import UserError

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
