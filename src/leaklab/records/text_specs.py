"""Specs of attacks on captured sentences and of their scores."""

from typing import Literal

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Seed
from leaklab.records.capture_spec import TextCaptureSpec
from leaklab.records.record import Component, Record

PRINTED_ATTACK = "tag"
"""The only attack on text that a paper prints; the others know the defense, unless their block says otherwise."""
TEXT_FOLDER = "text/"
"""Below the folder of prepared data: where text data sets lie, apart from the images."""


class TextAttackerSpec(Record):
    """What the job of an attack is told of it: a ``TextAttackSpec`` without the capture.

    Attributes:
        labels: ``searched`` with the sentence, ``inferred`` from the last layer (exact for one sentence), or
            ``known``, where the threat model grants them.
        iterations: steps per start; attacks without a search do not use it.
        restarts: starts; the best one is chosen by the attack's own matching loss.
    """

    attack: Component
    labels: Literal["searched", "inferred", "known"] = "searched"
    iterations: Count = 1000
    restarts: Count = Field(default=1, le=1000)
    seed: Seed = 0


class TextAttackSpec(TextAttackerSpec):
    """One attack on all trials of a capture."""

    capture: TextCaptureSpec


TextMetric = Literal["token_recovery", "position_recovery", "rouge_1", "rouge_2", "rouge_l"]


class TextScoreSpec(Record):
    """The metrics of one attack's sentences (``metrics/text/scoring.py``)."""

    attack: TextAttackSpec
    metrics: Distinct[TextMetric]
