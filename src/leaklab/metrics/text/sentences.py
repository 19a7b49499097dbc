"""Whole sentences of a batch: which were read token by token, and what an attacker's certificates are worth."""

from collections.abc import Sequence
from typing import Literal

from leaklab.metrics.base import MetricCard

Ids = tuple[int, ...]


def _sentence_card(name: str, better: Literal["lower", "higher"], averaging: str, note: str) -> MetricCard:
    return MetricCard(
        name=name, unit="", better=better, domain="whole sentences as ids, start and end included", peak=None,
        clamping="none", network="", input_range="tokens", averaging=averaging, note=note,
        assignment="a private sentence counts if one of the attacker's is the same, token by token",
    )  # fmt: skip


SENTENCE_CARDS = (
    _sentence_card(
        "sentences_exact", "lower", "share of a batch; tables take the mean over batches",
        "equal private sentences count each; what is read besides is no loss",
    ),
    _sentence_card(
        "sentences_certified", "lower", "share of a batch; tables take the mean over batches",
        "exact ones of which the attacker, without the truth, knows that they are right",
    ),
    _sentence_card(
        "false_certificates", "higher", "number in a batch; tables take the mean over batches",
        "sentences that the attacker holds for certain and that are not in the batch",
    ),
)  # fmt: skip


def batch_scores(
    found: Sequence[Ids], certified: Sequence[bool], truth: Sequence[Ids], metrics: Sequence[str]
) -> dict[str, float]:
    """Return metric -> value of whole sentences: shares of the batch in [0, 1], and the number of false certificates.

    Args:
        found: sentences as they were read, ids with start and end.
        certified: which of them the attacker knows to be right.
        truth: the private ones.
        metrics: others than those of whole sentences are left out.
    """
    sure = {sentence for sentence, proven in zip(found, certified, strict=True) if proven}
    scores = {
        "sentences_exact": sum(sentence in set(found) for sentence in truth) / len(truth),
        "sentences_certified": sum(sentence in sure for sentence in truth) / len(truth),
        "false_certificates": float(len(sure - set(truth))),
    }
    return {name: scores[name] for name in metrics if name in scores}
