"""The stages of a probe, one after the other within a budget: what each said, or why it was not run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from leaklab.records.errors import UserError


class Finding(Protocol):
    """What every stage returns."""

    def lines(self) -> tuple[str, ...]:
        """Return what it says, in sentences."""
        ...

    def record(self) -> dict[str, Any]:
        """Return the same as data."""
        ...


TOO_LARGE = "it does not fit the memory: probe fewer samples"
FULL = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says where memory is full, on a GPU and on a processor."""
Found = TypeVar("Found", bound=Finding)


@dataclass(frozen=True)
class Done:
    """A stage that was asked for.

    Attributes:
        name: of the stage.
        seconds: that it took.
        found: what it found; None where it was not run.
        missing: why it was not run, or failed; empty otherwise.
    """

    name: str
    seconds: float
    found: Finding | None
    missing: str = ""

    def record(self) -> dict[str, Any]:
        """Return it as data."""
        common = {"name": self.name, "seconds": round(self.seconds, 1)}
        if self.found is None:
            return {**common, "not run": self.missing}
        return {**common, "lines": list(self.found.lines()), "record": self.found.record()}


@dataclass
class Stages:
    """Runs stages, keeps what they found, and tells a listener.

    Attributes:
        until: time (``time.monotonic``) at which the budget is out.
        said: called with each stage as soon as it is over.
        done: all of them so far.
        cut: whether the budget was out before all had their turn.
    """

    until: float
    said: Callable[[Done], None]
    done: list[Done] = field(default_factory=list)
    cut: bool = False

    @property
    def left(self) -> float:
        """Seconds of the budget that are left, at least 0."""
        return max(0.0, self.until - time.monotonic())

    def seconds(self, name: str) -> float:
        """Return what a stage took; 0 where it was not run."""
        return sum(one.seconds for one in self.done if one.name == name)

    def run(self, name: str, stage: Callable[[], Found], *, needs_time: bool = True) -> Found | None:
        """Run one stage and return what it found; what goes wrong in it ends this stage alone.

        Args:
            name: as it is shown.
            stage: what is run.
            needs_time: whether it is left out when the budget is out.
        """
        if needs_time and not self.left:
            self.cut_off(name)
            return None
        start, found, missing = time.monotonic(), None, ""
        try:
            found = stage()
        except UserError as refusal:
            missing = str(refusal)
        except MemoryError:
            missing = TOO_LARGE
        # the owner's model, loss and optimizer are called: whatever they raise is told, and the others go on
        except Exception as error:  # noqa: BLE001
            text = " ".join(str(error).split())
            full = isinstance(error, RuntimeError) and any(one in text.lower() for one in FULL)
            missing = TOO_LARGE if full else f"{type(error).__name__}: {text[:300]}"
        self._add(Done(name, time.monotonic() - start, found, missing))
        return found

    def cut_off(self, name: str) -> None:
        """Say that a stage was not run, as the budget was out or too short for it."""
        self.cut = True
        self.left_out(name, "the budget was out")

    def left_out(self, name: str, why: str) -> None:
        """Say that a stage was not run."""
        self._add(Done(name, 0.0, None, why))

    def _add(self, done: Done) -> None:
        self.done.append(done)
        self.said(done)
