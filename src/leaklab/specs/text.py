"""Specs of captured sentences, of attacks on them and of their scores."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Flag, Natural, Seed
from leaklab.records.record import Component, Record
from leaklab.specs.base import AttackOn, CapturedRound, Judged

PRINTED_ATTACK = "tag"
"""The only attack on text that a paper prints; the others know the defense, unless their block says otherwise."""
TEXT_ATTACKS = "attacks/text"
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


class TextCaptureSpec(CapturedRound):
    """What clients send who hold one sentence each.

    Attributes:
        dtype: float32 is what clients send; a delta of rounded weights is then part of the observation.
    """

    stage: ClassVar[str] = "capture-text"
    rule: ClassVar[str] = "capture_text"
    observed: ClassVar[str] = "observation-text"
    rooms: ClassVar[Mapping[str, str]] = {"model": "models/text", "defense": "defenses"}

    sentences: SentenceChoice
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def trials(self) -> int:
        """How many updates it holds, each attacked on its own."""
        return self.sentences.count * self.draws

    @property
    def own_dataset(self) -> str:
        """The data set, below the folder of those of sentences."""
        return TEXT_FOLDER + self.dataset


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


class TextAttackSpec(AttackOn, TextAttackerSpec):
    """One attack on all trials of a capture."""

    stage: ClassVar[str] = "attack-text"
    rule: ClassVar[str] = "attack_text"
    called: ClassVar[str] = "{capture.dataset}-{attack.name}-on-{capture.defense.name}"
    rooms: ClassVar[Mapping[str, str]] = {"attack": TEXT_ATTACKS}

    capture: TextCaptureSpec

    def told(self) -> TextAttackerSpec:
        """Return the spec without the capture."""
        return TextAttackerSpec.model_validate(self.model_dump(exclude={self.withheld}))

    @property
    def printed(self) -> bool:
        """Whether it is the only attack on text that a paper prints."""
        return self.attack.name == PRINTED_ATTACK


TextMetric = Literal["token_recovery", "position_recovery", "rouge_1", "rouge_2", "rouge_l"]


class TextScoreSpec(Judged):
    """The metrics of one attack's sentences (``metrics/text/scoring.py``)."""

    stage: ClassVar[str] = "score-text"
    rule: ClassVar[str] = "score_text"
    block: ClassVar[str] = "attack-text"

    attack: TextAttackSpec
    metrics: Distinct[TextMetric]
