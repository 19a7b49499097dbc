"""The private side of a capture of images, for the judge; no attack may import this module."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors

if TYPE_CHECKING:  # read by a step without tensors
    from torch import Tensor


class _Trials(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    trials: list[dict[str, Any]]


@dataclass(frozen=True)
class Truth:
    """The private side of a capture.

    Attributes:
        images: [T, B, C, H, W] in [0, 1].
        labels: [T, B] int64.
        rates: [T, E] local learning rates really used; NaN in steps that a client left out. Of several rounds the mean.
        trials: for each trial the images' index in the split and the number of the defense's draw.
    """

    images: "Tensor"
    labels: "Tensor"
    rates: "Tensor"
    trials: tuple[Mapping[str, Any], ...]

    def select(self, rows: Sequence[int]) -> "Truth":
        """Return the truth of the given trials."""
        index = list(rows)
        trials = tuple(self.trials[row] for row in index)
        return Truth(self.images[index], self.labels[index], self.rates[index], trials)


def save_truth(tensors: Path, facts: Path, truth: Truth) -> None:
    """Write ``truth.safetensors`` and ``truth.json``."""
    write_tensors(tensors, {"images": truth.images, "labels": truth.labels, "rates": truth.rates})
    write_json(facts, {"trials": [dict(trial) for trial in truth.trials]})


def load_truth(tensors: Path, facts: Path) -> Truth:
    """Read what ``save_truth`` wrote.

    Raises:
        UserError: a file is missing or damaged.
    """
    named = read_tensors(tensors)
    trials = tuple(parse(_Trials, read_json(facts), facts).trials)
    missing = [name for name in ("images", "labels", "rates") if name not in named]
    if missing:
        raise UserError(f"{tensors} has no {missing[0]}: delete its folder and run snakemake again")
    return Truth(images=named["images"], labels=named["labels"], rates=named["rates"], trials=trials)


# The private side of a capture of sentences, for the judge; no attack may import this module.


@dataclass(frozen=True)
class PrivateSentence:
    """A sentence.

    Attributes:
        sentence: its place in the data set.
        text: as published.
        ids: its tokens with start and end.
        label: its class.
    """

    sentence: int
    text: str
    ids: tuple[int, ...]
    label: int


@dataclass(frozen=True)
class TextTrial:
    """What is hidden behind one update.

    Attributes:
        example: number of the batch, from 1 in the order of choice.
        sentence: place in the data set of its first sentence.
        draw: number of the defense's draw.
        text: the first sentence as published.
        ids: its tokens with start and end.
        label: its class.
        rates: learning rate really used in each local step.
        others: the sentences behind the first one; of several clients, one client's after another's.
    """

    example: int
    sentence: int
    draw: int
    text: str
    ids: tuple[int, ...]
    label: int
    rates: tuple[float, ...]
    others: tuple[PrivateSentence, ...] = ()

    @classmethod
    def of(cls, batch: Sequence[PrivateSentence], *, example: int, draw: int, rates: tuple[float, ...]) -> "TextTrial":
        """Return the trial of a batch of at least one sentence."""
        return cls(**vars(batch[0]), example=example, draw=draw, rates=rates, others=tuple(batch[1:]))

    @property
    def batch(self) -> tuple[PrivateSentence, ...]:
        """All its sentences."""
        return (PrivateSentence(self.sentence, self.text, self.ids, self.label), *self.others)


def save_text_truth(path: Path, trials: tuple[TextTrial, ...]) -> None:
    """Write ``truth.json``; a batch of one has no others there."""
    rows = [asdict(trial) for trial in trials]
    write_json(path, {"trials": [{k: v for k, v in row.items() if k != "others" or v} for row in rows]})


def load_text_truth(path: Path) -> tuple[TextTrial, ...]:
    """Read what ``save_text_truth`` wrote.

    Raises:
        UserError: the file is missing or damaged.
    """
    content: dict[str, Any] = read_json(path)
    try:
        return tuple(_text_trial(trial) for trial in content["trials"])
    except (KeyError, TypeError):
        raise UserError(f"{path} is damaged: delete it and run snakemake again") from None


def _text_trial(row: Mapping[str, Any]) -> TextTrial:
    others = tuple(PrivateSentence(**{**one, "ids": tuple(one["ids"])}) for one in row.get("others", ()))
    return TextTrial(**{**row, "ids": tuple(row["ids"]), "rates": tuple(row["rates"]), "others": others})
