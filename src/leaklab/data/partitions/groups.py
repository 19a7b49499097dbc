"""Clients with a little of everything and much of one group of classes; the groups cycle over the clients.

Source: HyperFL, whose paper leaves its partition open; shares and groups are those of its public code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leaklab.data.deal import counts_like
from leaklab.data.partitions.base import Integers, require_positive
from leaklab.data.partitions.shards import divide
from leaklab.records.bounds import Count, Share
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError

OVERLAPPING = ((0, 1, 2), (2, 3, 4), (4, 5, 6), (6, 7, 8), (8, 9, 0))
CHARACTERS = (tuple(range(10)), tuple(range(10, 36)), tuple(range(36, 62)))
GROUPS = {"overlapping": OVERLAPPING, "characters": CHARACTERS}


@dataclass(frozen=True)
class ClassGroups:
    """Deal each client ``samples``: a share of all classes, the rest of the group of its number.

    Both parts are divided among their classes as equally as the samples allow. The part of all classes is laid aside
    for everybody first. Then a class of several groups is divided among them in proportion to their clients, so that no
    client finds it used up: 100 clients with 600 samples use all of 60,000, and a group of three then has half of its
    part of the class that no other group has. Clients of a group have the same numbers but for one sample a class;
    which samples, is drawn.

    Attributes:
        clients: number of clients; client k has the group k mod the number of groups.
        samples: of each client.
        spread: share of them, rounded, that is taken from all classes.
        groups: ``overlapping`` for ten classes, {0, 1, 2}, {2, 3, 4} ... {8, 9, 0}; ``characters`` for the 62 of EMNIST
            by class, digits, capitals and small letters.
    """

    clients: Count = 20
    samples: Count = 600
    spread: Share = 0.2
    groups: Literal["overlapping", "characters"] = "overlapping"

    def __post_init__(self) -> None:
        require_positive("class-groups", clients=self.clients, samples=self.samples)

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, each ``samples`` long.

        Raises:
            UserError: classes that no group has, or too few samples of all classes or of a group.
        """
        groups = GROUPS[self.groups]
        classes = 1 + max(max(group) for group in groups)
        if len(labels) and int(labels.max()) >= classes:
            raise UserError(
                f"partition class-groups: groups '{self.groups}' are made for {classes} classes, but there is a class "
                f"{int(labels.max())}: choose other groups or another data set"
            )
        order = draws.permutation(len(labels))
        pools = [order[labels[order] == label] for label in range(classes)]
        count = round(self.spread * self.samples)
        spread, pools = _taken(pools, self.clients * count, "all classes")
        parts = [[hand] for hand in _hands(spread, self.clients)]
        for number, pool in enumerate(self._of_groups(pools)):
            members = range(number, self.clients, len(groups))
            taken, _ = _taken(pool, len(members) * (self.samples - count), f"group {number} of '{self.groups}'")
            for client, hand in zip(members, _hands(taken, len(members)), strict=True):
                parts[client].append(hand)
        return [np.concatenate(own) for own in parts]

    def _of_groups(self, pools: Sequence[Integers]) -> list[list[Integers]]:
        """Return each group's samples by class: those of a class of several groups are divided among them."""
        groups = GROUPS[self.groups]
        members = [len(range(number, self.clients, len(groups))) for number in range(len(groups))]
        found: list[list[Integers]] = [[] for _ in groups]
        for label, pool in enumerate(pools):
            having = [number for number, group in enumerate(groups) if label in group and members[number]]
            if having:
                shares = counts_like(np.array([members[number] for number in having]), len(pool))
                for number, own in zip(having, np.split(pool, np.cumsum(shares)[:-1]), strict=True):
                    found[number].append(own)
        return found


def _taken(pools: Sequence[Integers], count: int, of: str) -> tuple[Integers, list[Integers]]:
    """Return ``count`` samples, sorted by pool and as many of each as equally as can be, and what is left of the pools.

    Raises:
        UserError: the pools have fewer.
    """
    sizes = np.array([len(pool) for pool in pools], dtype=np.int64)
    if sizes.sum() < count:
        raise UserError(
            f"partition class-groups: {count} samples of {of} are needed, but there are {int(sizes.sum())}: lower "
            "samples or clients"
        )
    if not count:
        return np.empty(0, dtype=np.int64), list(pools)
    taken = _equal_parts(sizes, count)
    pairs = list(zip(pools, taken.tolist(), strict=True))
    return np.concatenate([pool[:own] for pool, own in pairs]), [pool[own:] for pool, own in pairs]


def _equal_parts(sizes: Integers, count: int) -> Integers:
    """Return how many each pool gives, as equal as their sizes allow; where one is over, the first ones give it."""
    level = 0
    while np.minimum(sizes, level + 1).sum() <= count:
        level += 1
        if level > sizes.max():
            break
    parts: Integers = np.minimum(sizes, level)
    more = np.flatnonzero(sizes > level)[: count - int(parts.sum())]
    parts[more] += 1
    return parts


def _hands(sorted_samples: Integers, clients: int) -> list[Integers]:
    """Deal like cards: neighbours, which are of one class, go to different clients."""
    return [sorted_samples[client::clients] for client in range(clients)]


# Clients are groups of people: what one writer wrote stays together.


@dataclass(frozen=True)
class ByWriter:
    """One shard per writer; the shards are shuffled and dealt equally, to within one shard.

    All samples are used. If the number of writers is no multiple of ``clients``, the first clients have one more.

    Source: LRP appendix D (FEMNIST, 100 clients); writers per client are not stated there.

    Attributes:
        clients: number of clients.
    """

    clients: Count = 100

    def __post_init__(self) -> None:
        require_positive("by-writer", clients=self.clients)

    def deal_groups(self, groups: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, writer after writer.

        Args:
            groups: int64, [N], who wrote each sample of the training part; any numbers.
            draws: source of all random choices.

        Raises:
            UserError: fewer writers than clients.
        """
        samples = np.unique(groups, return_counts=True)[1]
        if len(samples) < self.clients:
            raise UserError(
                f"partition by-writer: {self.clients} clients but {len(samples)} writers: ask for fewer clients"
            )
        shards = divide(np.argsort(groups, kind="stable"), samples)
        owners = np.array_split(draws.permutation(len(shards)), self.clients)
        return [np.concatenate([shards[int(writer)] for writer in owned]) for owned in owners]


PLUGINS = {
    "by-writer": ByWriter,
    "class-groups": ClassGroups,
}
