"""List scheduling: whenever a worker is free it takes the first task that may begin."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from campaign.tasks import Task


@dataclass(frozen=True)
class Bounds:
    """What no schedule can beat.

    Attributes:
        work: seconds of all tasks.
        path: seconds of the longest chain of tasks.
    """

    work: float
    path: float

    def ideal(self, workers: int) -> float:
        """Return the shortest time that might be possible with so many workers."""
        return max(self.work / workers, self.path)


def bounds(tasks: Mapping[str, Task]) -> Bounds:
    """Return the work and the longest path."""
    return Bounds(sum(task.seconds for task in tasks.values()), max(chains(tasks).values(), default=0.0))


def makespan(tasks: Mapping[str, Task], workers: int, longest_first: bool = False) -> float:
    """Return the seconds until all tasks are done.

    Args:
        tasks: by name, each after those that it needs.
        workers: tasks that run at once.
        longest_first: of the tasks that may begin, take the one with the longest chain behind it; else the one that
            was ready first, as a queue does, and of these the one that comes first in ``tasks``.
    """
    left, ticket = chains(tasks), count()
    place = {name: number for number, name in enumerate(tasks)}
    waiting = {name: len(set(task.needs)) for name, task in tasks.items()}
    after: dict[str, list[str]] = {name: [] for name in tasks}
    for name, task in tasks.items():
        for needed in set(task.needs):
            after[needed].append(name)

    def rank(name: str, now: float) -> tuple[float, float]:
        return (-left[name], 0.0) if longest_first else (now, float(place[name]))

    ready = [(rank(name, 0.0), name) for name, number in waiting.items() if not number]
    heapq.heapify(ready)
    running: list[tuple[float, int, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            name = heapq.heappop(ready)[1]
            heapq.heappush(running, (now + tasks[name].seconds, next(ticket), name))
        now, _, done = heapq.heappop(running)
        for name in after[done]:
            waiting[name] -= 1
            if not waiting[name]:
                heapq.heappush(ready, (rank(name, now), name))
    return now


def chains(tasks: Mapping[str, Task]) -> dict[str, float]:
    """Return for each task the seconds of the longest chain that begins with it."""
    found = dict.fromkeys(tasks, 0.0)
    for name in reversed(list(tasks)):
        found[name] += tasks[name].seconds
        for needed in tasks[name].needs:
            found[needed] = max(found[needed], found[name])
    return found
