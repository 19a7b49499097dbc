"""The private side of a capture of sentences, for the judge; no attack may import this module."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_json


@dataclass(frozen=True)
class TextTrial:
    """What one client hides.

    Attributes:
        example: number of the sentence, from 1 in the order of choice.
        sentence: its place in the data set.
        draw: number of the defense's draw.
        text: the sentence as published.
        ids: its tokens with start and end.
        label: its class.
        rates: learning rate really used in each local step.
    """

    example: int
    sentence: int
    draw: int
    text: str
    ids: tuple[int, ...]
    label: int
    rates: tuple[float, ...]


def save_text_truth(path: Path, trials: tuple[TextTrial, ...]) -> None:
    """Write ``truth.json``."""
    write_json(path, {"trials": [asdict(trial) for trial in trials]})


def load_text_truth(path: Path) -> tuple[TextTrial, ...]:
    """Read what ``save_text_truth`` wrote.

    Raises:
        UserError: the file is missing or damaged.
    """
    content: dict[str, Any] = read_json(path)
    try:
        return tuple(
            TextTrial(**{**trial, "ids": tuple(trial["ids"]), "rates": tuple(trial["rates"])})
            for trial in content["trials"]
        )
    except (KeyError, TypeError):
        raise UserError(f"{path} is damaged: delete it and run snakemake again") from None
