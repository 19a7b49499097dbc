"""One case and what came of it: taken, refused in one line, a traceback, or something lost in silence."""

import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from cases.spoil import Draw
from leaklab.records.errors import UserError

TAKEN, REFUSED = "taken", "refused in one line"
TRACEBACK, LOST = "tracebacks", "silent losses"
OUTCOMES = (REFUSED, TAKEN, TRACEBACK, LOST)
Case = Callable[[Draw, Path], str]
"""Draws a case in a folder and returns what came of it, ``TAKEN`` or ``REFUSED``."""
BASE = settings(
    deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False
)  # fmt: skip


class Wrong(AssertionError):  # noqa: N818 - what it says of data
    """Data that are not what was brought, a file that was changed, or a refusal that is not one line."""


def ensure(holds: bool, what: object) -> None:
    """Say what is wrong where something does not hold."""
    if not holds:
        raise Wrong(f"{what}"[:1000])


def refused(error: UserError | str) -> str:
    """Return that a case was refused, if the refusal is one line that can be printed."""
    line = str(error)
    ensure(bool(line.strip()) and len(line.splitlines()) == 1, f"no one line: {line!r}")
    return REFUSED


def read_or_refused(read: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """Return what a reader gives, and that it was taken; None and that it was refused where it was."""
    try:
        return read(*arguments), TAKEN
    except UserError as error:
        return None, refused(error)


State = dict[str, tuple[int, ...]]


def state_of(folder: Path) -> State:
    """Return mode, size, number and times of all that lies below a folder."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)  # noqa: PTH118 - names may be any bytes
            about = os.lstat(path)
            own = () if os.path.isdir(path) else (about.st_size, about.st_mtime_ns)  # noqa: PTH112
            found[path] = (about.st_mode, about.st_ino, *own)
    return found


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Say which file of a folder was changed or lost, if one was."""
    before = state_of(folder)
    yield
    after = state_of(folder)
    touched = [name for name, state in before.items() if after.get(name) != state]
    ensure(not touched, f"changed or gone: {touched[:3]!r}")


@dataclass
class Tally:
    """What came of the cases of one kind.

    Attributes:
        counts: by outcome.
        examples: of what went wrong, the first of each text.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        """How many there were."""
        return sum(self.counts.values())

    @property
    def wrong(self) -> int:
        """How many of them ended with a traceback or lost something."""
        return self.counts[TRACEBACK] + self.counts[LOST]

    def add(self, case: Case, draw: Draw, folder: Path) -> None:
        """Try a case and count it."""
        try:
            outcome = case(draw, folder)
        except HypothesisException:
            raise
        except Exception as error:  # noqa: BLE001 - whatever comes out is what is looked for
            outcome = LOST if isinstance(error, Wrong) else TRACEBACK
            lines = traceback.format_exception(error)
            self.examples.setdefault(f"{type(error).__name__}: {error}"[:200], "".join(lines)[-3000:])
        self.counts[outcome] += 1


def tried(case: Case, number: int, folder: Path) -> Tally:
    """Draw a number of cases, always the same ones, and return what came of them; no case ends the others."""
    tally = Tally()

    @settings(BASE, max_examples=number, phases=[Phase.generate])
    @given(data=st.data())
    def each(data: st.DataObject) -> None:
        tally.add(case, data.draw, folder)

    each()
    return tally
