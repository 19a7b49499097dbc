"""``leaklab.judge`` and ``leaklab try``: from a defense, however it is given, to its card, on one road.

The defense is linted, then each network of the arena is a child of its own, and all of them share the budget. Whatever
ends the judging, the children end with it.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Any

from leaklab.guests import arenas
from leaklab.guests.arenas import DEFAULT
from leaklab.guests.card import card_of
from leaklab.guests.child import IN_CHILD, SECONDS, CutOffError, in_child
from leaklab.guests.files import Guest, find
from leaklab.guests.pictures import strips
from leaklab.guests.sheets import Card
from leaklab.guests.sources import Source, source_of
from leaklab.records.errors import UserError

LINT, JUDGE = "leaklab.guests.lint:linted", "leaklab.guests.judge:judged"
UNITS = {"": 60.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
LEAST_SECONDS = 6.0
LINT_SECONDS = 60.0
"""A busy machine is no fault of the file's; a short budget leaves less, but never below what a child has anyway."""
_TICK_SECONDS = 0.2


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a defense was judged; its children have ended.

    Attributes:
        card: what was ready by then.
    """

    def __init__(self, card: Card) -> None:
        super().__init__(str(card))
        self.card = card


class Watch:
    """Told what happens while a card is made; this one keeps it to itself."""

    def phase(self, network: str, phase: str) -> None:
        """Hear what is done on a network now; before any is attacked, its name is empty."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Hear what an attacker read."""

    def spent(self, seconds: float) -> None:
        """Hear, a few times a second, how much of the budget is gone."""


def judge(
    defense: object, arena: str = DEFAULT, budget: str | float = "3m", seed: int = 0, *, watch: Watch | None = None
) -> Card:
    """Judge a defense in minutes: attackers chosen by what it does, and one who learns it.

    Args:
        defense: path of a file that offers one, a function of gradients, a class, or an object of a class. What was
            defined in a notebook is written down first, with the imports, constants and functions that it uses.
        arena: ``tiny``, ``images``, ``colour``, ``batch``, ``steps`` or ``text``, or a YAML file like theirs; see
            ``arenas.ArenaFile``.
        budget: e.g. ``90s``, ``3m``, ``0.5h``; a number alone is minutes. What is ready by then is on the card.
        seed: of everything that is drawn.
        watch: told what happens.

    Raises:
        UserError: it cannot be judged; one line that says what to do.
        Interrupted: by Ctrl-C, with the card of what was ready.
    """
    where = arenas.find(str(arena))
    if IN_CHILD in os.environ:
        raise UserError(
            "leaklab.judge was called while the file that it judges was imported: put the call below "
            'if __name__ == "__main__":'
        )
    until = time.monotonic() + seconds_of(budget)
    with TemporaryDirectory(prefix="leaklab-") as folder:
        source = source_of(defense, Path(folder))
        try:
            guest = find(source.file, source.offered)
            if guest.kind != "defense":
                raise UserError(
                    f"{source.file}: {guest.offered} is an attack: leaklab try takes it, judge takes defenses"
                )
            return _Judging(guest, source, where, seed, until, watch or Watch()).card()
        except UserError as error:
            raise UserError(_with_line(str(error), source)) from None


@contextmanager
def heard() -> Iterator[Callable[[], None]]:
    """Yield what raises KeyboardInterrupt after Ctrl-C; a second one is raised at once.

    Python raises it wherever the main thread is, in a destructor too, which would swallow it.
    """
    pressed = Event()

    def hear(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            signal.default_int_handler(number, frame)
        pressed.set()

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if current_thread() is not main_thread():  # others get no signals
        yield check
        return
    before = signal.signal(signal.SIGINT, hear)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)


def seconds_of(budget: str | float) -> float:
    """Return a budget in seconds.

    Raises:
        UserError: it is no such time, or too short for anything.
    """
    told = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|min|h|)", str(budget).strip())
    seconds = float(told[1]) * UNITS[told[2]] if told else 0.0
    if seconds < LEAST_SECONDS:
        raise UserError(
            f"the budget '{budget}' is no time from {LEAST_SECONDS:.0f} s on: write 90s, 3m or 0.5h; a number alone is "
            "minutes"
        )
    return seconds


def _with_line(text: str, source: Source) -> str:
    """Return an error of a file that is gone by now with its name alone, and the line that it names in words."""
    if not source.written:
        return text
    lines = source.file.read_text(encoding="utf-8").splitlines()
    number = re.search(rf"{re.escape(str(source.file))}, line (\d+)", text)
    shown = text.replace(str(source.file), source.file.name)
    return f"{shown} (the line is: {lines[int(number[1]) - 1].strip()})" if number else shown


@dataclass
class _Judging:
    """One defense while it is judged."""

    guest: Guest
    source: Source
    arena: arenas.Arena
    seed: int
    until: float
    watch: Watch
    warnings: list[dict[str, str]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    stop: Event = field(default_factory=Event)
    began: float = field(default_factory=time.monotonic)

    def card(self) -> Card:
        """Return the card.

        Raises:
            UserError: it cannot be judged.
            Interrupted: see ``judge``.
        """
        self.answers = dict.fromkeys(self.arena.file.networks)
        try:
            with heard() as check:
                self._side_by_side([self._lint], check)
                self._side_by_side([partial(self._attack, network) for network in self.answers], check)
        except KeyboardInterrupt:
            raise Interrupted(self._made(interrupted=True)) from None
        return self._made()

    def _made(self, *, interrupted: bool = False) -> Card:
        data = card_of(
            self.guest, self.arena, self.seed, self.warnings, self.rows, self.answers, interrupted=interrupted
        )
        return Card(data, strips(self.rows))

    def _side_by_side(self, tasks: Sequence[Callable[[], None]], check: Callable[[], None]) -> None:
        """Do tasks at once; what ends one of them, or all by Ctrl-C, ends the children of the others."""
        with ThreadPoolExecutor(len(tasks)) as pool:
            waiting = {pool.submit(task) for task in tasks}
            try:
                while waiting:
                    done, waiting = wait(waiting, _TICK_SECONDS, FIRST_COMPLETED)
                    for one in done:
                        one.result()
                    check()
                    self.watch.spent(time.monotonic() - self.began)
            except BaseException:
                self.stop.set()
                raise

    def _lint(self) -> None:
        seconds = min(LINT_SECONDS, max(SECONDS, self.until - time.monotonic()))
        self.warnings = self._answer(LINT, "", {}, seconds)["warnings"]

    def _attack(self, network: str) -> None:
        with suppress(CutOffError):  # the card says that it was cut off
            given = {"network": network, "arena": self.arena.given, "arena_name": self.arena.name, "seed": self.seed}
            self.answers[network] = self._answer(JUDGE, network, given, self.until - time.monotonic())

    def _answer(self, task: str, network: str, given: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        arguments = {**given, "sha256": self.guest.sha256, "offered": self.source.offered}
        answer: dict[str, Any] = in_child(
            task, self.guest.file, arguments, seconds=seconds, on_row=self._row, stopped=self.stop.is_set,
            on_phase=partial(self.watch.phase, network),
        ).value  # fmt: skip
        return answer

    def _row(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.watch.row(row)
