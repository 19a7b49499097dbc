"""From measurements to rows of a page: the figures of a contestant, or the reason why there are none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from speed.contest import Results
from speed.contestants import OURS, Contestant

W = TypeVar("W")
F = TypeVar("F")


@dataclass(frozen=True)
class Row(Generic[W, F]):
    """A contestant in a workload: figures, or the reason why there are none."""

    workload: W
    contestant: Contestant
    figures: F | None
    reason: str = ""


def rows(
    results: Results,
    workloads: Sequence[Any],
    contestants: Sequence[Contestant],
    seconds: Callable[[Sequence[Any]], float],
    figures: Callable[[Any, Sequence[Any], Sequence[Any] | None, float], F],
) -> list[Row[Any, F]]:
    """Return a row for each contestant that took part in a workload, or should have, in order.

    Args:
        results: of the contest.
        workloads: what was done.
        contestants: who did it.
        seconds: processor seconds of one step, from the runs of a contestant.
        figures: (workload, runs, our runs or None, GFLOP per processor second) -> figures.
    """
    found = []
    for workload in workloads:
        ours = results.runs.get((workload.name, OURS))
        for contestant in contestants:
            key = workload.name, contestant.name
            if key in results.failures:
                found.append(Row[Any, F](workload, contestant, None, results.failures[key]))
            elif key in results.runs:
                runs = results.runs[key]
                gflops = results.costs[workload.name].flop / seconds(runs) / 1e9
                # faster than the processor: the work was not done, whatever the counter says
                void = f"void: {gflops:.0f} GFLOP/s are above the peak of {results.peak:.0f}"
                believed = gflops <= results.peak
                own = figures(workload, runs, ours, gflops) if believed else None
                found.append(Row[Any, F](workload, contestant, own, "" if believed else void))
    return found
