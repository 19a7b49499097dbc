"""Specs of captured sentences, of attacks on them and of their scores."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

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
    """What clients send who hold sentences: ``batch_size`` of them each, the same in every local step.

    Attributes:
        dtype: float32 is what clients send; a delta of rounded weights is then part of the observation.
        batch_size: sentences of an update, the chosen ones in their order.
        frozen: what clients do not train besides what the model says: ``embeddings`` are its tables of words and
            places, with what is tied to them.
        optimizer: how clients step; its state is new in every round.
        clients: of how many clients the update is the mean; each has a batch of its own, and the server sees no other.
    """

    LATER: ClassVar[frozenset[str]] = CapturedRound.LATER | {"batch_size", "frozen", "optimizer", "clients"}
    stage: ClassVar[str] = "capture-text"
    rule: ClassVar[str] = "capture_text"
    observed: ClassVar[str] = "observation-text"
    rooms: ClassVar[Mapping[str, str]] = {
        "model": "models/text",
        "defense": "defenses",
        "optimizer": "federated/optimizers",
    }

    sentences: SentenceChoice
    dtype: Literal["float32", "float64"] = "float32"
    batch_size: Count = 1
    frozen: Literal["nothing", "embeddings"] = "nothing"
    optimizer: Component = Component(name="sgd")
    clients: Count = 1

    @model_validator(mode="after")
    def _whole_batches(self) -> Self:
        if self.sentences.count % self.together:
            each = f"{self.clients} clients with {self.batch_size} each" if self.clients > 1 else str(self.batch_size)
            raise ValueError(
                f"{self.sentences.count} sentences do not make updates of {each}: set sentences.others so that the "
                f"chosen ones are a multiple of {self.together}"
            )
        return self

    @property
    def together(self) -> int:
        """Sentences behind an update, of all its clients."""
        return self.batch_size * self.clients

    @property
    def trials(self) -> int:
        """How many updates it holds, each attacked on its own."""
        return self.sentences.count // self.together * self.draws

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


TextMetric = Literal[
    "token_recovery", "position_recovery", "rouge_1", "rouge_2", "rouge_l",
    "sentences_exact", "sentences_certified", "false_certificates",
]  # fmt: skip
OF_ONE_SENTENCE = ("position_recovery", "rouge_1", "rouge_2", "rouge_l")
"""Metrics that hold one text against another, in its order."""


class TextScoreSpec(Judged):
    """The metrics of one attack's sentences (``metrics/text/scoring.py``)."""

    stage: ClassVar[str] = "score-text"
    rule: ClassVar[str] = "score_text"
    block: ClassVar[str] = "attack-text"

    attack: TextAttackSpec
    metrics: Distinct[TextMetric]

    @model_validator(mode="after")
    def _of_a_batch(self) -> Self:
        wrong = [name for name in self.metrics if name in OF_ONE_SENTENCE and self.attack.capture.together > 1]
        if wrong:
            raise ValueError(
                f"metric '{wrong[0]}' is of one sentence, and an update has {self.attack.capture.together}: name "
                "token_recovery or sentences_exact"
            )
        return self
