"""What is known of a landscape along a line of latents, and what its figures refuse to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leaklab.items.layouts import MINUS
from leaklab.metrics.statistics import spearman
from leaklab.records.errors import UserError
from leaklab.report.numbers.series import Floats

ENDS = {"$z_1$": 0.0, "$z_2$": 1.0}
"""Where the two latents of the line stand."""

WIDE = 100.0
"""A positive quantity whose largest value is more than this many times its smallest is drawn on a log scale."""


@dataclass(frozen=True)
class Words:
    """How the quantities and the two latents are called, and their units.

    Attributes:
        loss: the matching loss, against the defended gradient.
        distance: from the picture of a latent to the private image.
        profiled: the matching loss at the best factor on the update.
        first: the latent at alpha 0.
        second: the latent at alpha 1.
        loss_unit: of both losses; empty for none.
        distance_unit: of the distance.
    """

    loss: str = "matching loss"
    distance: str = "LPIPS"
    profiled: str = "matching loss, scale profiled out"
    first: str = "found by the attack"
    second: str = "from inverting the private image"
    loss_unit: str = ""
    distance_unit: str = ""


@dataclass(frozen=True, eq=False)
class LatentLine:
    """What one defense looks like along the line.

    Attributes:
        name: of the defense, as shown.
        alpha: [A], rising, from 0 or less to 1 or more.
        loss: [A], matching loss.
        distance: [A], perceptual distance.
        profiled: [A], matching loss with the scale profiled out; None leaves it out.
        other_losses: [M, A], matching loss of other images, thin.
        other_distances: [M, A], their perceptual distance.
        correlations: rank correlation of loss and distance of each image; empty takes that of the curves shown.

    Raises:
        UserError: shapes that do not fit, a value that is not finite, or an alpha that misses an end.
    """

    name: str
    alpha: Floats
    loss: Floats
    distance: Floats
    profiled: Floats | None = None
    other_losses: Floats = field(default_factory=lambda: np.empty((0, 0)))
    other_distances: Floats = field(default_factory=lambda: np.empty((0, 0)))
    correlations: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        others = {"other_losses": self.other_losses, "other_distances": self.other_distances}
        of_others = {f"{key}[{place}]": own for key, rows in others.items() for place, own in enumerate(rows)}
        check(self.name, {"alpha": self.alpha}, {**self.values, **of_others})
        covers(self.name, "alpha", self.alpha, *ENDS.values())

    @property
    def values(self) -> Mapping[str, Floats]:
        """The quantities along the line by name."""
        profiled = {} if self.profiled is None else {"profiled": self.profiled}
        return {"loss": self.loss, **profiled, "distance": self.distance}

    @property
    def losses(self) -> Floats:
        """All values of the upper axes."""
        own = [own for name, own in self.values.items() if name != "distance"]
        return np.concatenate([*own, self.other_losses.ravel()])

    @property
    def distances(self) -> Floats:
        """All values of the lower axes."""
        return np.concatenate([self.distance, self.other_distances.ravel()])


def check(name: str, coordinates: Mapping[str, Floats], values: Mapping[str, Floats]) -> None:
    """Refuse numbers over a grid that cannot be drawn.

    Args:
        name: of the defense, for the message.
        coordinates: each [n] with n of 2 or more, finite and rising.
        values: each with one axis per coordinate, finite.

    Raises:
        UserError: anything else.
    """
    for key, own in coordinates.items():
        if own.ndim != 1 or own.size < 2 or not np.isfinite(own).all() or (np.diff(own) <= 0).any():
            raise UserError(f"{name}: '{key}' has to be two or more finite numbers in rising order")
    shape = tuple(own.size for own in coordinates.values())
    for key, own in values.items():
        if own.shape != shape:
            raise UserError(f"{name}: '{key}' has shape {list(own.shape)}, but there are {list(shape)} points: give "
                            "one number per point")  # fmt: skip
        bad = int((~np.isfinite(own)).sum())
        if bad:
            raise UserError(f"{name}: '{key}' is not finite at {bad} of {own.size} points: leave this defense out and "
                            "say so in a note")  # fmt: skip


def covers(name: str, key: str, coordinate: Floats, *needed: float) -> None:
    """Refuse a coordinate that misses a latent which the figure marks.

    Raises:
        UserError: a needed place lies outside.
    """
    if min(needed) < coordinate[0] or max(needed) > coordinate[-1]:
        places = " and ".join(f"{place:g}" for place in needed)
        raise UserError(
            f"{name}: '{key}' goes from {coordinate[0]:g} to {coordinate[-1]:g}: it has to contain {places}"
        )


def check_names(names: Sequence[str]) -> None:
    """Refuse an empty figure and one that shows a name twice.

    Raises:
        UserError: either.
    """
    if not names:
        raise UserError("there is no defense to draw: run the item first")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"'{twice[0]}' stands for two defenses: give each its own name")


def agreement(first: Floats, second: Floats) -> str:
    """Return Spearman's rank correlation of all points as text; it is the number that the claims judge."""
    try:
        return f"{spearman(first.ravel().tolist(), second.ravel().tolist()):.2f}".replace("-", MINUS)
    except ValueError:
        return "undefined"


def median_agreement(correlations: Sequence[float]) -> str:
    """Return the median of the images' rank correlations as text, with the smallest and the largest."""
    middle, low, high = (f"{value:.2f}".replace("-", MINUS) for value in
                         (np.median(correlations), min(correlations), max(correlations)))  # fmt: skip
    return f"{middle} (median of {len(correlations)}, {low} to {high})"


def is_wide(values: Floats) -> bool:
    """Return whether values span more than two decades, so that a linear scale would hide the small ones."""
    return bool(values.min() > 0 and values.max() > WIDE * values.min())
