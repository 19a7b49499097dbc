"""A bar for who waits at a terminal: it is there after some seconds, goes with the work, and is nowhere else.

A command says around what takes long that it does (``shown``); loops within, wherever they stand, say how far they are
(``tracked``), which costs nothing where no bar is.
"""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER_SECONDS = 3.0
Turn = TypeVar("Turn")


class _Bar:
    """The bar of a command, which a timer begins to show."""

    def __init__(self, words: str) -> None:
        self._words, self._lock = words, threading.Lock()
        self._total: int | None = None
        self._done = 0
        self._shown: Progress | None = None
        self._ended = False
        self._timer = threading.Timer(AFTER_SECONDS, self._show)
        self._timer.daemon = True
        self._timer.start()

    def begin(self, total: int) -> None:
        self._total, self._done = total, 0
        self._update()

    def step(self) -> None:
        self._done += 1
        self._update()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with self._lock:
            if self._ended:
                return
            # nothing is redirected: what is piped elsewhere stays as it is
            self._shown = Progress(
                *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._shown.add_task(self._words, total=None)
            self._shown.start()
        self._update()

    def _update(self) -> None:
        if self._shown is not None:
            task = self._shown.task_ids[0]
            self._shown.update(task, total=self._total, completed=self._done)


_bars: list[_Bar] = []


@contextmanager
def shown(words: str) -> Iterator[None]:
    """Show a bar with some words while something is done that may take long, if a terminal is there to show it on.

    Nothing may be printed meanwhile. Within the bar of another no second one is shown.
    """
    if _bars or not sys.stderr.isatty():
        yield
        return
    bar = _Bar(words)
    _bars.append(bar)
    try:
        yield
    finally:
        _bars.remove(bar)
        bar.end()


def tracked(turns: Iterable[Turn], total: int) -> Iterator[Turn]:
    """Yield the turns of a loop, and say how many of them are done if a bar is shown."""
    bar = _bars[-1] if _bars else None
    if bar is None:
        yield from turns
        return
    bar.begin(total)
    for turn in turns:
        yield turn
        bar.step()
