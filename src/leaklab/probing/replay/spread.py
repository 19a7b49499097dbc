"""A client whose defense draws: its rounds differ from each other, and one of them may be what was sent.

What was sent is held against some replays as these are against each other: by its distance from them, and by how far it
goes their way. Where the replays' own way does not stand out of what is drawn, nobody can tell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

RUNS = 8
"""Replays that are held against each other."""
FURTHER = 1.05
"""Distance of what was sent, relative to the furthest of the replays, up to which it is one of them."""
ASIDE = 6.0
"""Deviations of the replays' inner products within which that of what was sent lies."""
VISIBLE = 4.0
"""Standard errors by which the replays' own way has to stand out."""


@dataclass(frozen=True)
class Spread:
    """Replays that differ, beside what was sent.

    Attributes:
        error: mean distance of what was sent from the replays, relative to its norm.
        limit: distance up to which it may be one of them, relative to the same.
        along: whether it goes their way as far as they do.
        visible: whether they go any way of their own.
    """

    error: float
    limit: float
    along: bool
    visible: bool

    @property
    def one_of_them(self) -> bool:
        """Whether what was sent may be one of the replays."""
        return self.error <= self.limit and self.along


def spread(sent: Tensor, first: Tensor, again: Callable[[], Tensor]) -> Spread | None:
    """Return how replays differ; None if two of them are the same.

    Args:
        sent: directions [P].
        first: of one replay.
        again: runs another one.
    """
    second = again()
    if torch.equal(first, second):
        return None
    runs = torch.stack([first, second, *(again() for _ in range(RUNS - 2))])
    apart = torch.cdist(runs[None], runs[None], compute_mode="donot_use_mm_for_euclid_dist")[0].sum(1) / (RUNS - 1)
    length = float(sent.norm())
    error = float((runs - sent).norm(dim=1).mean()) / length
    others = [(runs.sum(0) - one) / (RUNS - 1) for one in runs]
    own = torch.stack([one @ other for one, other in zip(runs, others, strict=True)])
    aside = abs(float(sent @ runs.mean(0)) - float(own.mean()))
    pairs = torch.stack([runs[i] @ runs[j] for i, j in combinations(range(RUNS), 2)])
    visible = float(pairs.mean()) > VISIBLE * float(pairs.std()) / RUNS**0.5
    limit = FURTHER * float(apart.max()) / length
    return Spread(error, limit, aside <= ASIDE * float(own.std()), visible)
