"""Which job goes first where several may begin: the one with the longest chain of work behind it.

With as many workers as a scale has long chains, the order decides: a chain that begins last ends last, and alone
(``benchmarks/campaign.md``).
"""

from collections.abc import Mapping
from functools import cached_property

from leaklab.planning.devices import Device
from leaklab.planning.plan import Job, Plan

RESULT = 10**6
"""Rank of tables and figures, above all others: they take seconds, and somebody waits for them."""

Key = tuple[str, str]


class Ranks:
    """The minutes of the longest chain of jobs that begins with a job, rounded up."""

    def __init__(self, plan: Plan, device: Device) -> None:
        """Rank all jobs of a plan by what they take on a device."""
        self._plan, self._device = plan, device

    def of(self, stage: str, name: str) -> int:
        """Return the rank of a run, below ``RESULT``."""
        return min(RESULT - 1, 1 + int(self._seconds[stage, name] / 60))

    def of_dataset(self, name: str) -> int:
        """Return the rank of a prepared data set: that of the first run that reads it; 0 if none does."""
        reading = [key for key, job in self._jobs.items() if job.dataset == name]
        return max((self.of(*key) for key in reading), default=0)

    @cached_property
    def _jobs(self) -> Mapping[Key, Job]:
        return {(stage, name): job for stage, jobs in self._plan.jobs.items() for name, job in jobs.items()}

    @cached_property
    def _seconds(self) -> dict[Key, float]:
        readers: dict[Key, list[Key]] = {key: [] for key in self._jobs}
        for key, job in self._jobs.items():
            for read in job.read_runs:
                readers[read].append(key)
        found: dict[Key, float] = {}

        def longest(key: Key) -> float:
            if key not in found:
                behind = max((longest(reader) for reader in readers[key]), default=0.0)
                found[key] = self._device.seconds(self._jobs[key].spec) + behind
            return found[key]

        for key in self._jobs:
            longest(key)
        return found
