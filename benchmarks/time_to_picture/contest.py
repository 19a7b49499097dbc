"""The contest: update after update, every case, contestants in turn; those that attack all updates at once come last.

It is not ``speed.contest.hold``: what is measured here takes hours, so each run is kept, and none is made twice. For
the same reason a run that fails is tried again by the next call only.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speed.contest import interpreters
from speed.environments import python_of

from time_to_picture.cases import HELD_OUT, PUBLIC, Case, captured, save, save_public
from time_to_picture.contestants import Attacker, hindrance
from time_to_picture.runs import SECONDS, Kept, Run, folder_of, measured
from time_to_picture.workers.measuring import Job

SCALES = (0.02, 0.002, 0.0002)
"""Weights of breaching's total variation that are tried on held-out images; its own is 0.2."""
TUNING_CAP = 15.0


@dataclass
class Contest:
    """What a contest is held with.

    Attributes:
        cases: what is attacked.
        contestants: by whom.
        updates: of each case, the first ones.
        cap: processor seconds per update.
        patience: see ``workers.meter.Meter``.
        kept: the runs so far.
        smoothing: the runs on held-out images so far, for the tuned contestant.
        folder: for the material.
        until: by ``time.monotonic``, when no further run is begun.
    """

    cases: Sequence[Case]
    contestants: Sequence[Attacker]
    updates: int
    cap: float
    patience: float
    kept: Kept
    smoothing: Kept
    folder: Path
    until: float = float("inf")

    def hold(self) -> dict[str, str]:
        """Measure what is missing, and return why contestants cannot be measured here, by name."""
        turns = list(self._turns()) if time.monotonic() < self.until else []
        pythons, missing = interpreters(self.contestants, python_of) if turns else ({}, {})
        for case, contestant, updates in turns:
            if contestant.name in missing:
                continue
            if time.monotonic() >= self.until:
                break
            chosen = self._tuned(case, contestant, pythons[contestant.name]) if contestant.tuned else None
            print(f"{case.name} {contestant.name} {updates}", file=sys.stderr, flush=True)
            job = self._job(case, contestant, updates, smoothing=chosen)
            self.kept.add(measured(pythons[contestant.name], contestant, job))
        return missing

    def _turns(self) -> Iterator[tuple[Case, Attacker, tuple[int, ...]]]:
        """Yield the runs that are missing."""
        every = tuple(range(self.updates))
        alone = [((update,), False) for update in every]
        for updates, together in [*alone, (every, True)]:
            for case in self.cases:
                for one in self.contestants:
                    if one.together == together and not hindrance(case, one) and not self._done(case, one, updates):
                        yield case, one, updates

    def _done(self, case: Case, contestant: Attacker, updates: tuple[int, ...]) -> bool:
        names: dict[str, Any] = {"case": case.name, "contestant": contestant.name, "together": len(updates)}
        return all(self.kept.has(**names, update=update) for update in updates)

    def _job(
        self,
        case: Case,
        contestant: Attacker,
        updates: tuple[int, ...],
        *,
        held_out: bool = False,
        smoothing: float | None = None,
    ) -> Job:
        if not (self.folder / PUBLIC).is_file():
            save_public(self.folder / PUBLIC)
        place = folder_of(self.folder, case, held_out=held_out)
        if not place.is_dir():
            save(place, *captured(case, held_out=held_out))
        cap = TUNING_CAP if held_out else self.cap
        return Job(case.name, contestant.attack, updates, str(place), cap, self.patience, smoothing)

    def _tuned(self, case: Case, contestant: Attacker, python: Path) -> float:
        """Return the smoothing that is best on held-out images, after what is missing of them was measured."""
        for scale in SCALES:
            for update in range(HELD_OUT):
                if not self.smoothing.has(case=case.name, smoothing=scale, update=update):
                    print(f"{case.name} smoothing {scale:g}, held-out {update}", file=sys.stderr, flush=True)
                    job = self._job(case, contestant, (update,), held_out=True, smoothing=scale)
                    self.smoothing.add(measured(python, contestant, job))
        return best_smoothing([run for run in self.smoothing.runs if run["case"] == case.name])


def best_smoothing(runs: Sequence[Run]) -> float:
    """Return the smoothing under which most levels were reached, then soonest, then that of the best last guesses."""

    def worth(scale: float) -> tuple[float, float, float]:
        own = [run for run in runs if run["smoothing"] == scale and not run.get("reason")]
        times = [run[name] for run in own for name in SECONDS if run[name] is not None]
        return len(times), -sum(times), sum(run["psnr"] for run in own)

    return max(sorted({run["smoothing"] for run in runs}, reverse=True), key=worth)


SMOOTHING_KEY = ("case", "smoothing", "update")
