"""Most of a client's samples are of a group of classes, the rest of all classes: the skewed deal of HyperFL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.records.bounds import Count, Share
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError

STEP, SIZE = 2, 3
# digits, capitals and small letters of EMNIST's by-class split
CHARACTERS = (range(10), range(10, 36), range(36, 62))


@dataclass(frozen=True)
class ClassGroups:
    """Deal every client ``samples``: a share over all classes, the others over its group; groups cycle over clients.

    Within a share, classes get equal parts as far as there are samples left. Source: HyperFL's public code (register
    Q-C2); the paper does not state its deal.

    Attributes:
        clients: number of clients.
        samples: of each client.
        spread: share of them that is spread over all classes.
        groups: ``overlapping`` takes three classes from every second one on, {0, 1, 2}, {2, 3, 4}, ..., {8, 9, 0} of
            ten; ``characters`` takes digits, capitals and small letters of 62 classes.
    """

    clients: Count = 20
    samples: Count = 600
    spread: Share = 0.2
    groups: Literal["overlapping", "characters"] = "overlapping"

    def __post_init__(self) -> None:
        require_positive("class-groups", clients=self.clients, samples=self.samples)

    def class_groups(self, classes: int) -> list[list[int]]:
        """Return the groups; client i has number i modulo their count.

        Raises:
            UserError: the groups do not fit so many classes.
        """
        if self.groups == "characters":
            if classes != CHARACTERS[-1].stop:
                raise UserError(
                    f"partition class-groups: characters are {CHARACTERS[-1].stop} classes, but the data set has "
                    f"{classes}: set groups: overlapping"
                )
            return [list(group) for group in CHARACTERS]
        if classes < SIZE:
            raise UserError(f"partition class-groups: groups of {SIZE} classes need as many, not {classes}")
        return [[(first + place) % classes for place in range(SIZE)] for first in range(0, classes, STEP)]

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, those of the group first.

        Raises:
            UserError: too few samples of a group, or in all.
        """
        classes = int(labels.max()) + 1
        groups = self.class_groups(classes)
        pools = [members[draws.permutation(len(members))] for members in _members(labels, classes)]
        pile = _Pile([list(pool) for pool in pools], draws)
        spread = round(self.spread * self.samples)
        own = [
            pile.take(groups[client % len(groups)], self.samples - spread, f"client {client}'s group of classes")
            for client in range(self.clients)
        ]
        common = [pile.take(range(classes), spread, f"client {client}") for client in range(self.clients)]
        return [np.array([*first, *rest], dtype=np.int64) for first, rest in zip(own, common, strict=True)]


class _Pile:
    """What is left of every class."""

    def __init__(self, pools: list[list[int]], draws: Draws) -> None:
        self._pools, self._draws = pools, draws

    def take(self, classes: Sequence[int], count: int, who: str) -> list[int]:
        """Return ``count`` samples of the classes in parts as equal as possible; who gets one more is drawn."""
        there = sum(len(self._pools[label]) for label in classes)
        if there < count:
            raise UserError(
                f"partition class-groups: {who} needs {count} samples, but {there} are left: ask for fewer clients or "
                "samples"
            )
        found: list[int] = []
        while len(found) < count:
            left = [label for label in classes if self._pools[label]]
            part, more = divmod(count - len(found), len(left))
            lucky = {left[place] for place in self._draws.permutation(len(left))[:more].tolist()}
            for label in left:
                pool = self._pools[label]
                found += [pool.pop() for _ in range(min(len(pool), part + (label in lucky)))]
        return found


def _members(labels: Integers, classes: int) -> list[Integers]:
    return [np.flatnonzero(labels == label) for label in range(classes)]


PLUGIN = ClassGroups
