"""How long a call still takes, from what its jobs were expected to take and what those that have ended took."""

from collections.abc import Mapping
from dataclasses import dataclass

MEASURED_SHARE = 0.5
"""Of the expected seconds that remain, so much must be of kinds of which some job has ended: else nothing is said."""
LEAST_SECONDS = 10.0
"""Nothing is said before: the first jobs of a call are the smallest ones."""


@dataclass
class _Kind:
    """Jobs of one kind, which are taken to change by one factor.

    Attributes:
        expected: seconds of those that have ended, as they were expected.
        took: seconds that they took.
        remains: expected seconds of the others.
    """

    expected: float = 0.0
    took: float = 0.0
    remains: float = 0.0

    @property
    def factor(self) -> float:
        """What a job takes as a multiple of what was expected, which stands as long as none has ended."""
        return self.took / self.expected if self.expected else 1.0


class Pace:
    """The pace of a call."""

    def __init__(self, expected: Mapping[int, tuple[str, float]], began: float) -> None:
        """Expect jobs.

        Args:
            expected: job -> kind, and the seconds that it takes at most, above 0.
            began: when the call began, in seconds.
        """
        self._expected, self._call_began = expected, began
        self._kinds: dict[str, _Kind] = {}
        for kind, seconds in expected.values():
            self._kinds.setdefault(kind, _Kind()).remains += seconds
        self._began: dict[int, float] = {}
        self._ended: set[int] = set()
        self._longest_first = sorted(expected, key=lambda job: expected[job][1])

    def begins(self, job: int, at: float) -> None:
        """Note that a job begins, or begins again."""
        self._began[job] = at

    def ends(self, job: int, at: float, took: float | None = None) -> float:
        """Note that a job has ended well; return the seconds that it took: since it began, if nobody says better."""
        since = max(0.0, at - self._began.pop(job, at))
        took = since if took is None else took
        if job in self._expected and job not in self._ended:
            name, seconds = self._expected[job]
            kind = self._kinds[name]
            kind.took, kind.expected, kind.remains = kind.took + took, kind.expected + seconds, kind.remains - seconds
        self._ended.add(job)
        return took

    def gives_up(self, job: int) -> None:
        """Note that a job has failed, or waits to be tried again."""
        self._began.pop(job, None)

    def left(self, now: float) -> float | None:
        """Return the seconds that the call still takes; None while that cannot be told."""
        remains = sum(kind.remains for kind in self._kinds.values())
        known = sum(kind.remains for kind in self._kinds.values() if kind.expected)
        took, elapsed = sum(kind.took for kind in self._kinds.values()), now - self._call_began
        if elapsed < LEAST_SECONDS or took <= 0 or known < MEASURED_SHARE * remains:
            return None
        running = sum(now - began for began in self._began.values())
        work = sum(kind.remains * kind.factor for kind in self._kinds.values()) - running
        side_by_side = max(1.0, (took + running) / elapsed)
        return max(work / side_by_side, self._longest(now), 0.0)

    def _longest(self, now: float) -> float:
        """Return what the job that was expected to take longest still takes, of those that have not ended."""
        while self._longest_first and self._longest_first[-1] in self._ended:
            self._longest_first.pop()
        if not self._longest_first:
            return 0.0
        job = self._longest_first[-1]
        name, seconds = self._expected[job]
        return seconds * self._kinds[name].factor - (now - self._began.get(job, now))
