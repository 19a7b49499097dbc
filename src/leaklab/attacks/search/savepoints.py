"""States of running searches, kept so that an attack that is killed, or cut by the plan, goes on where it was.

The searches of an attack follow one another in an order that does not depend on when it was killed. So the n-th search
of a process that goes on is the n-th of the one before: it begins with the state that was kept, and one that had ended
ends at once. What is kept is the state before the step that comes next, bit by bit, so the results have the same bytes.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Protocol

from torch import Tensor

State = Callable[[], Mapping[str, Tensor]]
"""Makes the tensors of a state; called only where they are to be kept."""


class Store(Protocol):
    """Where tensors are kept, such as ``records.kept.KeptTensors``."""

    def found(self) -> dict[str, Tensor]:
        """Return what was kept."""
        ...

    def keep(self, tensors: Mapping[str, Tensor]) -> None:
        """Keep these in place of what was kept before."""
        ...

    def offer(self, tensors: State) -> None:
        """Keep them if it is time."""
        ...


class OutOfTime(Exception):  # noqa: N818 - nothing went wrong
    """The time of a piece of an attack is over; its searches are kept."""


class Savepoint:
    """The state of one search; this one keeps nothing, as nobody asked for it or a search within another runs."""

    def found(self) -> Mapping[str, Tensor]:
        """Return the state from which the search goes on; empty where it begins."""
        return {}

    def offer(self, state: State) -> None:
        """Offer the state before the next step; the last one offered is that of the search's end.

        Raises:
            OutOfTime: the search is to be left here; it has been kept.
        """


class Savepoints:
    """The states of all searches of an attack so far.

    Args:
        kept: where they lie.
        until: when to leave the search, by ``time.monotonic``.
    """

    def __init__(self, kept: Store, until: float = inf) -> None:
        self._kept, self._until = kept, until
        self._found = kept.found()
        self._ended: dict[str, Tensor] = {}
        self._number = 0
        self._running = False

    @contextmanager
    def search(self) -> Iterator[Savepoint]:
        """Give the next search its savepoint; searches within it, which it does again, keep nothing."""
        if self._running:
            yield Savepoint()
            return
        own = _Kept(self, f"{self._number}/", self._found)
        self._running = True
        try:
            yield own
        finally:
            self._running = False
        # small by now, and whoever asked for the search may change what it returned
        self._ended |= {name: value.clone() for name, value in own.tensors().items()}
        self._number += 1

    def offer(self, tensors: State) -> None:
        """Keep the state of the running search and of those that ended, if it is time."""
        over = time.monotonic() >= self._until
        if over:
            self._kept.keep({**self._ended, **tensors()})
            raise OutOfTime
        self._kept.offer(lambda: {**self._ended, **tensors()})


class _Kept(Savepoint):
    """The state of one search among those of an attack."""

    def __init__(self, among: Savepoints, prefix: str, found: Mapping[str, Tensor]) -> None:
        self._among, self._prefix = among, prefix
        self._found = {name.removeprefix(prefix): t for name, t in found.items() if name.startswith(prefix)}
        self._state: State = lambda: self._found

    def found(self) -> Mapping[str, Tensor]:
        return self._found

    def offer(self, state: State) -> None:
        self._state = state
        self._among.offer(self.tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state that was offered last, on the CPU, by the names of the store."""
        found: dict[str, Tensor] = {}
        places: set[int] = set()
        for name, value in self._state().items():
            tensor = value.detach().cpu()
            # files hold no tensors that share memory; more copies than that a long history has no room for
            place = tensor.untyped_storage().data_ptr()
            found[self._prefix + name] = tensor.clone() if place in places else tensor
            places.add(place)
        return found


_current: ContextVar[Savepoints | None] = ContextVar("savepoints", default=None)


@contextmanager
def keeping(savepoints: Savepoints) -> Iterator[None]:
    """Keep the searches of what runs in this context."""
    token = _current.set(savepoints)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def unkept() -> Iterator[None]:
    """Keep no search of what runs in this context: it is out of the order of the others."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def savepoint() -> Iterator[Savepoint]:
    """Give a search the place where its state is kept."""
    current = _current.get()
    if current is None:
        yield Savepoint()
        return
    with current.search() as own:
        yield own
