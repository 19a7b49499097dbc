"""Spec of a training sweep."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from leaklab.records.partition_spec import PartitionChoice
from leaklab.records.record import Component, Record


class Goal(Record):
    """A replicate stops in the first evaluated round in which ``metric`` is at least ``value``.

    Attributes:
        metric: accuracy in percent on a part named under ``evaluate``.
        value: in percent.
    """

    metric: Literal["test_accuracy", "train_accuracy"]
    value: float


class TrainSpec(Record):
    """A sweep: one model, one dataset, one algorithm, one defense; replicates = seeds x rates.

    Attributes:
        rates: one entry a setting; an entry has one rate for all clients or one rate per client.
        evaluate: parts that the global model is tested on; ``train`` is all clients' training samples together.
        evaluate_every: test the global model every so many rounds; 0 tests after the last round only.
        goal: where a replicate stops; None trains all rounds.
        optimizer: how clients step; its state is new in every round.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        augmentation: how a client changes its training images.
        schedule: how the nominal rate changes from round to round.
        until: stop after so many of the ``rounds`` and test there; schedules do not notice. The state that a capture
            starts from.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"until"})

    dataset: str
    partition: PartitionChoice
    model: Component
    defense: Component = Component(name="none")
    algorithm: Literal["scheme1", "scheme2"] = "scheme1"
    rates: tuple[tuple[float, ...], ...]
    rounds: int = Field(gt=0)
    local_steps: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    optimizer: Component = Component(name="sgd")
    weight_decay: float = Field(default=0.0, ge=0)
    augmentation: Component = Component(name="none")
    schedule: Component = Component(name="constant")
    clients_per_round: int | None = None
    seeds: tuple[int, ...]
    evaluate: tuple[Literal["test", "train"], ...] = Field(default=("test",), min_length=1)
    evaluate_every: int = Field(default=0, ge=0)
    goal: Goal | None = None
    dtype: Literal["float32", "float64"] = "float32"
    until: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _until_is_reached(self) -> "TrainSpec":
        if self.until is not None and self.until > self.rounds:
            raise ValueError(f"until is {self.until}, but the training ends after {self.rounds} rounds: lower it")
        return self
