"""Where the weights that a server sends come from, if they are not the initial ones."""

from typing import Self

from pydantic import model_validator

from leaklab.records.bounds import Natural
from leaklab.records.record import Record
from leaklab.records.train_spec import TrainSpec


class TrainedState(Record):
    """The weights are those after a round of a training.

    Attributes:
        train: the training; where it stops (``until``, else its last round) is the state.
        replicate: seed and setting of the training: place of the seed times the number of settings, plus that of the
            setting.
    """

    train: TrainSpec
    replicate: Natural = 0

    @model_validator(mode="after")
    def _replicate_exists(self) -> Self:
        count = self.train.replicates
        if self.replicate >= count:
            raise ValueError(f"replicate is {self.replicate}, but the training has {count}: 0 to {count - 1}")
        return self

    @property
    def round(self) -> int:
        """Rounds done; the captured round has this number, from 0."""
        return self.train.rounds_done

    @property
    def seed(self) -> int:
        """Seed of the replicate."""
        return self.train.seeds[self.replicate // len(self.train.rates)]


class PublishedState(Record):
    """The weights are published ones.

    Attributes:
        weights: key of ``config/weights.yaml``.
    """

    weights: str

    @property
    def train(self) -> None:
        """None: no training of ours made them."""
