"""Updates that say nothing of their samples: nobody attacks them, and they have no number but their count.

A missing number is a missing line of ``scores.csv``. So a table shows fewer updates, never a reconstruction that looks
as if something had protected it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from leaklab.metrics.base import MetricCard
from leaklab.observations.threat_models import Silence

if TYPE_CHECKING:  # read by steps without tensors
    import pandas as pd
    from torch import Tensor

OF_NO_IMAGE = -1
"""In place of an image (or an example) in the line that counts."""
NO_INFORMATION_CARD = MetricCard(
    name="no_information",
    unit="updates",
    better="higher",
    domain="updates of the run",
    peak=None,
    clamping="none",
    network="",
    input_range="none: no image is compared",
    assignment="none: one value a run, where there is any",
    averaging="a count",
    note="updates that say nothing of their samples: zero, below the rounding of the weights that they were subtracted "
    "from, or of a training that diverged; nobody attacks them, no other number counts them, and nothing is protected",
)


def silent_trials(starts: "pd.DataFrame") -> dict[int, str]:
    """Return the trials of ``trials.csv`` whose update says nothing, and why."""
    silent = starts[starts["stopped"].isin(get_args(Silence))]
    return dict(zip(silent["trial"].tolist(), silent["stopped"].tolist(), strict=True))


def silenced(values: "Tensor", silent: Collection[int]) -> "Tensor":
    """Return values [T, B] with NaN for the trials ``silent``."""
    if not silent:
        return values
    found = values.clone()
    found[list(silent)] = float("nan")
    return found


def counted(silent: Mapping[int, str]) -> dict[str, dict[str, int]]:
    """Return what a record says of ``silent_trials``: how many for which reason; nothing where all updates speak."""
    return {NO_INFORMATION_CARD.name: dict(Counter(silent.values()))} if silent else {}


def cards_of(silent: Collection[int]) -> list[MetricCard]:
    """Return the card of the count, if there is one."""
    return [NO_INFORMATION_CARD] if silent else []


def silence_line(silent: Collection[int], draws: Sequence[int]) -> dict[str, Any]:
    """Return the line that counts the updates of a run which say nothing.

    It is of the first of them and of no image, so that nobody takes it for a value of one. Collectors count it apart,
    and compare runs over the updates that speak in both.

    Args:
        silent: trials that say nothing; at least one.
        draws: number of the defense's draw in each trial, [T].
    """
    first = min(silent)
    place = {"trial": first, "image": OF_NO_IMAGE, "draw": draws[first], "selection": "best-by-loss"}
    return {**place, "metric": NO_INFORMATION_CARD.name, "value": float(len(silent))}
