"""What an attacker would return now, and after how many processor seconds that was how close to the truth.

An attacker chooses by its own loss; the truth only says what its choice is worth. The time for that is taken out.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

import torch
from torch import Tensor

from leaklab.metrics.guesses import match, reorder

LEVELS = (20.0, 25.0, 30.0)
"""dB."""
GAIN = 0.2
"""dB by which a guess has to become better within the patience."""
CAP, GIVEN_UP, OWN_END, READ = "cap", "given up", "own end", "read"
ImagesOf = Callable[[list[int]], Tensor]
"""Places [k] among the offered ones -> their images [k, B, C, H, W]."""


class Spent(Exception):  # noqa: N818 - nothing went wrong
    """The time that an attacker has is over."""


class Meter:
    """The best guesses so far of an attacker of T updates.

    Args:
        truths: private images [T, B, C, H, W].
        cap: processor seconds per update.
        patience: processor seconds per update in which some guess has to gain ``GAIN``.
        clock: processor seconds.

    Attributes:
        rows: update of each row that the attacker works on; it may have been given some of them only.
        ended: why the attack is over.
        searches: how many were begun.
        guesses: of each update, how many points were heard of.
    """

    def __init__(
        self, truths: Tensor, cap: float, patience: float, clock: Callable[[], float] = time.process_time
    ) -> None:
        self.truths, self.cap, self.patience, self._clock = truths, cap, patience, clock
        self.rows = list(range(len(truths)))
        self.ended, self.searches = OWN_END, 0
        self.guesses = [0] * len(truths)
        self._best = [(-inf, inf)] * len(truths)  # how narrow, and the loss
        self._closeness, self._marked = [-inf] * len(truths), [-inf] * len(truths)
        self._reached: list[dict[float, float]] = [{} for _ in truths]
        self._aside, self._started, self._gained = 0.0, clock(), 0.0
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Processor seconds per update so far, without scoring."""
        return (self._clock() - self._started - self._aside) / len(self.truths)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave out the time of what is done within."""
        start = self._clock()
        try:
            yield
        finally:
            self._aside += self._clock() - start

    def missing(self) -> list[int]:
        """Return the updates whose guess is not at the last level yet."""
        return [row for row, reached in enumerate(self._reached) if LEVELS[-1] not in reached]

    def offer(self, rows: Sequence[int], losses: Sequence[float], images_of: ImagesOf, narrow: float = 0.0) -> None:
        """Hear of points that an attacker has evaluated; those that it likes best are what it would return.

        Args:
            rows: which of the attacker's updates each point is of.
            losses: its own; one that is not a number is no guess.
            images_of: makes the images of those that are asked for.
            narrow: of losses under different likelihoods the narrower one counts, whatever its value.

        Raises:
            Spent: all updates are at the last level, the cap is reached, or nothing was gained for too long.
        """
        now = self.seconds
        with self.aside():
            better: dict[int, int] = {}
            for place, (row, loss) in enumerate(zip(rows, losses, strict=True)):
                update = self.rows[row]
                self.guesses[update] += 1
                held, least = self._best[update]
                if loss == loss and (narrow > held or (narrow == held and loss < least)):
                    self._best[update] = (narrow, loss)
                    better[update] = place
            if better:
                images = images_of(list(better.values()))
                assert images.shape == (len(better), *self.truths.shape[1:]), "a guess of another update's size"
                closeness = psnr(images, self.truths[list(better)])
                for update, value in zip(better, closeness.tolist(), strict=True):
                    self._judge(update, value, now)
        if not self.missing():
            self.ended = READ
        elif now >= self.cap:
            self.ended = CAP
        elif now - self._gained >= self.patience:
            self.ended = GIVEN_UP
        if self.ended != OWN_END:
            raise Spent

    def report(self) -> list[dict[str, Any]]:
        """Return what came of each update: see ``runs.Run``."""
        total, wall = self.seconds, (time.monotonic() - self._begun) / len(self.truths)
        return [
            {
                "update": update,
                "seconds": [self._reached[update].get(level) for level in LEVELS],
                "psnr": self._closeness[update],
                "loss": self._best[update][1],
                "total": total,
                "wall": wall,
                "searches": self.searches,
                "guesses": self.guesses[update],
                "images": self.truths.shape[1],
                "ended": self.ended,
            }
            for update in range(len(self.truths))
        ]

    def _judge(self, update: int, closeness: float, now: float) -> None:
        self._closeness[update] = closeness
        if closeness >= self._marked[update] + GAIN:
            self._marked[update], self._gained = closeness, now
        for level in LEVELS:
            if closeness >= level and now <= self.cap:
                self._reached[update].setdefault(level, now)


def psnr(images: Tensor, truths: Tensor) -> Tensor:
    """Return dB of guesses [k, B, C, H, W], clipped to [0, 1] and in the best order, of a whole batch: [k].

    One that is not finite is no guess: -inf.
    """
    usable = images.isfinite().flatten(1).all(1)
    guesses = images.detach().double().nan_to_num().clamp(0, 1)
    originals = truths.double()
    error = (reorder(guesses, match(guesses, originals)) - originals).square().flatten(1).mean(1)
    # an error of nothing is 150 dB
    return torch.where(usable, -10 * torch.log10(error.clamp(min=1e-15)), -inf)
