"""Specs of attacks on sentences: what a client with a private sentence sends, one attack on it, its scores."""

from typing import Literal

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Flag, Natural, Positive, Rate, Seed
from leaklab.records.record import Component, Record

PRINTED_ATTACK = "tag"
"""The only attack on text that a paper prints; every other one is an attacker who knows more (``adaptive``)."""
TEXT_FOLDER = "text/"
"""Below the folder of prepared data: where text data sets lie, apart from the images."""


class SentenceChoice(Record):
    """Which private sentences clients hold; the first is example 1.

    Attributes:
        printed: begin with the two sentences that LRP table 7 prints.
        others: sentences drawn besides, without replacement.
        seed: of that draw.
        longest: drawn sentences have at most so many tokens, start and end included.
    """

    printed: Flag = True
    others: Natural = 0
    seed: Seed = 0
    longest: Count = Field(default=24, gt=2)

    @property
    def count(self) -> int:
        """Number of sentences."""
        return (2 if self.printed else 0) + self.others


class TextCaptureSpec(Record):
    """What clients with one sentence each send in one round: trials = sentences x draws of the defense's randomness.

    Attributes:
        dataset: key of ``config/texts.yaml``.
        rate: the server's nominal local learning rate.
        client_weight: p_k N of the client, by which scheme 1 scales its rate (LRP section 5.3 uses 2).
        kind: ``gradient`` (the update divided by the rate that the server assumes, times -1) or ``delta``.
        threat_model: name of the set of facts that the attacker is granted (``observations/threat_models.py``).
        draws: independent draws of the defense's randomness for each sentence.
        dtype: float32 is what clients send; a delta of rounded weights is then part of the observation.
    """

    dataset: str
    sentences: SentenceChoice
    draws: Count = 1
    model: Component
    defense: Component = Component(name="none")
    local_steps: Count = 1
    rate: Rate = 0.01
    client_weight: Positive = 1.0
    kind: Literal["gradient", "delta"] = "gradient"
    threat_model: str = "honest-but-curious"
    seed: Seed = 0
    dtype: Literal["float32", "float64"] = "float32"


class TextAttackSpec(Record):
    """One attack on all trials of a capture.

    Attributes:
        labels: ``searched`` with the sentence, ``inferred`` from the last layer (exact for one sentence), or
            ``known``, where the threat model grants them.
        iterations: steps per start; attacks without a search do not use it.
        restarts: starts; the best one is chosen by the attack's own matching loss.
    """

    capture: TextCaptureSpec
    attack: Component
    labels: Literal["searched", "inferred", "known"] = "searched"
    iterations: Count = 1000
    restarts: Count = Field(default=1, le=1000)
    seed: Seed = 0


TextMetric = Literal["token_recovery", "position_recovery", "rouge_1", "rouge_2", "rouge_l"]


class TextScoreSpec(Record):
    """The metrics of one attack's sentences (``metrics/text/scoring.py``)."""

    attack: TextAttackSpec
    metrics: Distinct[TextMetric]
