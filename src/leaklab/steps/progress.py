"""Progress: a bar on a terminal, plain lines in a log."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
LINES_PER_LOG = 10
log = logging.getLogger("leaklab")


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Yield the items of a loop of ``total`` turns and show how far it has come."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track as bar

        yield from bar(items, description=label, total=total, console=Console(stderr=True))
        return
    started = time.monotonic()
    for count, item in enumerate(items, start=1):
        yield item
        if count == total or count % max(1, total // LINES_PER_LOG) == 0:
            log.info("%s: %d of %d, %.0f s", label, count, total, time.monotonic() - started)
