"""Work as on a machine without a compiler: what counts operations, or says what a plan knows, does so on that road."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from leaklab.models.lanes.library import COMPILER, OFF, library


@contextmanager
def without_compiler() -> Iterator[None]:
    """Take compiled steps away, and give them back; also a decorator."""
    before = os.environ.get(COMPILER)
    os.environ[COMPILER] = OFF
    library.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(COMPILER)
        os.environ.update({} if before is None else {COMPILER: before})
        library.cache_clear()
