"""Ctrl-C is answered as Ctrl-C, whatever foreign code makes of it.

Python raises KeyboardInterrupt wherever the main thread is. Where that is a Python function that compiled code has
called (the length of an object, a destructor), the compiled code may swallow it or report an error of its own: torch
says that it could not determine the shape of an object.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

ENDED_BY_SIGINT = 128 + signal.SIGINT
"""Exit status of a program that Ctrl-C ended, as shells give it."""


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Let whatever ends a ``with`` block after SIGINT end it as KeyboardInterrupt.

    Yields:
        What raises KeyboardInterrupt after a SIGINT that was swallowed: to be called before anything is said to be
        finished.

    Raises:
        KeyboardInterrupt: SIGINT came, and something was raised.
    """
    if current_thread() is not main_thread():  # others get no signals
        yield lambda: None
        return
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        signal.default_int_handler(number, frame)

    def check() -> None:
        if heard:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # who ignores it, or answers in another way, goes on to
        yield check
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield check
    except BaseException:
        if heard:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
