"""What would stop an attack on a client: larger batches, more local steps, noise, or tensors that are not sent.

The attack is any function of a case that says which share of its samples is read. It fails where that is less than
half. A limit is found in growing steps until it fails, then by bisection; both of its ends were tried, and nothing is
said of what lies between or beyond them. Nothing that stops one attack is proven to stop another.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import sqrt
from typing import Any

from leaklab.probing.case import Case
from leaklab.probing.changed import groups_of, root_mean_square, with_batch, with_noise, with_steps, without
from leaklab.records.errors import UserError

Reads = Callable[[Case], float]
"""Share of the samples of a case that an attack reads, in [0, 1]; a ``UserError`` counts as none."""
HALF = 0.5
"""Share of samples below which an attack has failed."""
KNOBS = ("batch size", "local steps", "noise", "tensors left out")
MOST_SAMPLES, MOST_STEPS = 256, 64
LEAST_NOISE, MOST_NOISE = 1e-4, 100.0
"""Relative to the root mean square of what is sent."""
CLOSE = 1.25
"""Ratio of two levels of noise between which no third is tried."""


@dataclass(frozen=True)
class Limit:
    """Where an attack fails, along one knob.

    Attributes:
        knob: one of ``KNOBS``.
        reads: largest setting at which half of the samples are read; None if there is none.
        fails: smallest setting at which less are; None if there is none.
        unit: root mean square of what is sent, for noise, whose settings are multiples of it; else 1.
        tried: settings in their order, and the share that was read.
        complete: whether time sufficed for all that was to be tried.
    """

    knob: str
    reads: float | None
    fails: float | None
    unit: float
    tried: tuple[tuple[float, float], ...]
    complete: bool = True

    def line(self) -> str:
        """Return what was found, in a sentence."""
        cut = "" if self.complete else " The budget ended the search for a closer limit."
        half = f"{self.knob}: half of the samples or more are read"
        if self.reads is None and self.fails is None:
            return f"{self.knob}: nothing was tried; the budget was used up before."
        if self.reads is None:
            return f"{self.knob}: at {self._of(self.fails)} less than half of the samples are read already.{cut}"
        if self.fails is None:
            return f"{half} up to {self._of(self.reads)}, the most that was tried.{cut}"
        return f"{half} at {self._of(self.reads)}, not at {self._of(self.fails)}.{cut}"

    def _of(self, setting: float | None) -> str:
        assert setting is not None
        if self.knob != "noise":
            return f"{setting:g}"
        return f"sigma {setting * self.unit:.2g} ({setting:.2g} of the root mean square of what is sent)"


@dataclass(frozen=True)
class LeftOut:
    """What is read where some tensors are not sent.

    Attributes:
        groups: names of tensors that were left out together, and the share that was read without them.
        front: see ``Limit``: how many of the groups, from the input on, were left out together; None where one alone
            was enough or none was tried.
        complete: whether time sufficed.
    """

    groups: tuple[tuple[tuple[str, ...], float], ...]
    front: Limit | None
    complete: bool

    def lines(self) -> tuple[str, ...]:
        """Return what was found, in sentences."""
        cut = () if self.complete else ("tensors left out: the budget ended the search.",)
        if not self.groups:
            return cut or ("tensors left out: there is no group of tensors without which others are sent.",)
        stop = [", ".join(names) for names, share in self.groups if share < HALF]
        if stop:
            said = f"tensors left out: without {' or without '.join(stop)} less than half of the samples are read"
            return (f"{said}; {len(self.groups) - len(stop)} other groups of tensors make no such difference.", *cut)
        said = f"tensors left out: none of {len(self.groups)} groups of tensors is needed by itself"
        front = self.front
        if front is None or (front.reads is None and front.fails is None):
            return (f"{said}.", *cut)
        if front.reads is None:
            return (f"{said}, but without the first {front.fails:g} of them less than half are read.", *cut)
        most = "" if front.fails is None else f", not without {front.fails:g}"
        return (f"{said}; half are read without the first {front.reads:g} of them{most}.", *cut)


@dataclass(frozen=True)
class Stopping:
    """What would stop an attack.

    Attributes:
        plain: share of the samples that is read of the case as it is; None if that was not tried.
        limits: along each knob that was turned.
        left_out: of tensors; None where that was not tried.
        attack: what was to be stopped, in words; empty where nobody says.
    """

    plain: float | None
    limits: tuple[Limit, ...]
    left_out: LeftOut | None
    attack: str = ""

    def lines(self) -> tuple[str, ...]:
        """Return what was found, in sentences."""
        if self.plain is not None and self.plain < HALF:
            return (f"Nothing has to stop the attack: of the client as it is it reads {100 * self.plain:.0f} %.",)
        who = (f"what was to be stopped: {self.attack}.",) if self.attack else ()
        return (*who, *(one.line() for one in self.limits), *(() if self.left_out is None else self.left_out.lines()))

    def record(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        limits = [{**vars(one), "tried": [list(pair) for pair in one.tried]} for one in self.limits]
        groups = [] if self.left_out is None else self.left_out.groups
        left = [{"without": list(names), "share": share} for names, share in groups]
        return {"half": HALF, "plain": self.plain, "limits": limits, "left_out": left, "attack": self.attack}


def stopping(
    case: Case,
    reads: Reads,
    budget: float = 60.0,
    *,
    knobs: Collection[str] = KNOBS,
    attack: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Stopping:
    """Find what would stop an attack.

    Args:
        case: with inputs and targets; larger batches are filled with its public samples.
        reads: the attack.
        budget: seconds; what was found when they are over stands. Each knob has its share of what is left, and nothing
            is begun for which, by the longest trial so far, they would not do.
        knobs: which of ``KNOBS`` to turn.
        attack: in words, for the sentences.
        clock: by which seconds are counted.

    Raises:
        UserError: an unknown knob, or nobody holds the samples.
    """
    unknown = sorted(set(knobs) - set(KNOBS))
    if unknown:
        raise UserError(f"there is no knob '{unknown[0]}': choose from {', '.join(KNOBS)}")
    if case.inputs is None or case.targets is None:
        raise UserError("what would stop an attack is tried on the client's samples: give the case inputs and targets")
    trial = _Trial(reads, clock, until=clock() + budget)
    plain = trial.share(case)
    if plain < HALF:
        return Stopping(plain, (), None, attack)
    limits, left_out, turned = [], None, [knob for knob in KNOBS if knob in knobs]
    for place, knob in enumerate(turned):
        trial.turn(len(turned) - place)
        if knob == "tensors left out":
            left_out = _left_out(case, trial)
        else:
            limits.append(_limit(case, trial, knob))
    return Stopping(plain, tuple(limits), left_out, attack)


@dataclass
class _Trial:
    """Lets the attack read changed cases, within the budget and within the share of it that the knob at hand has."""

    reads: Reads
    clock: Callable[[], float]
    until: float
    own: float = 0.0
    longest: float = 0.0

    def turn(self, knobs: int) -> None:
        """Begin a knob, the first of so many that share what is left."""
        now = self.clock()
        self.own = now + (self.until - now) / knobs

    @property
    def over(self) -> bool:
        now = self.clock()
        return now > self.own or now + self.longest > self.until

    def share(self, case: Case) -> float:
        began = self.clock()
        try:
            return float(self.reads(case))
        except UserError:
            return 0.0
        finally:
            self.longest = max(self.longest, self.clock() - began)

    def limit(self, knob: str, changed: Callable[[float], Case], ends: tuple[float, float], unit: float = 1.0) -> Limit:
        """Double the setting from one end to the other until the attack fails, then halve the way between."""
        tried: list[tuple[float, float]] = []
        reads: float | None = None
        fails: float | None = None
        setting: float | None = ends[0]
        while setting is not None and not self.over:
            share = self.share(changed(setting))
            tried.append((setting, share))
            reads, fails = (reads, setting) if share < HALF else (setting, fails)
            setting = _next(reads, fails, ends[1], whole=knob != "noise")
        return Limit(knob, reads, fails, unit, tuple(tried), complete=setting is None)


def _next(reads: float | None, fails: float | None, most: float, *, whole: bool) -> float | None:
    """Return the next setting to try; None at the end."""
    if reads is None:
        return None
    if fails is None:
        return None if reads >= most else min(most, (2 if whole else 8) * reads)
    if whole:
        return (reads + fails) // 2 if fails - reads > 1 else None
    return sqrt(reads * fails) if fails / reads > CLOSE else None


def _limit(case: Case, trial: _Trial, knob: str) -> Limit:
    assert case.inputs is not None
    if knob == "batch size":
        others = 0 if case.public is None else len(case.public[0])
        most = min(MOST_SAMPLES, len(case.inputs) + others)
        return trial.limit(knob, lambda size: with_batch(case, int(size)), (1, most))
    if knob == "local steps":
        return trial.limit(knob, lambda steps: with_steps(case, int(steps)), (1, MOST_STEPS))
    unit = root_mean_square(case.exchange)
    return trial.limit(knob, lambda level: with_noise(case, level * unit), (LEAST_NOISE, MOST_NOISE), unit)


def _left_out(case: Case, trial: _Trial) -> LeftOut:
    groups = groups_of(list(case.exchange.sent))
    found: list[tuple[tuple[str, ...], float]] = []
    for names in groups:
        if trial.over:
            return LeftOut(tuple(found), None, complete=False)
        found.append((names, trial.share(without(case, names))))
    if len(groups) < 3 or any(share < HALF for _, share in found):
        return LeftOut(tuple(found), None, complete=True)
    front = trial.limit(
        "tensors left out",
        lambda number: without(case, {name for own in groups[: int(number)] for name in own}),
        (2, len(groups) - 1),
    )
    return LeftOut(tuple(found), front, front.complete)
