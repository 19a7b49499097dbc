"""What a replay found: whether the description is right, what explains the difference, and what does not."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.replay.target import TensorError

SHOWN = 3
"""Tensors and explanations that the sentences list."""


@dataclass(frozen=True)
class Explanation:
    """Named mistakes that turn the description into what was sent.

    Attributes:
        names: of the mistakes, one, two, or what the update itself shows besides.
        says: the same with their numbers, as a phrase.
        numbers: those that were fitted, in the order of the phrase.
        residual: distance from what was sent relative to its norm, over all entries, with these mistakes made.
        equals: other names of the same, which this round cannot tell apart.
    """

    names: tuple[str, ...]
    says: str
    numbers: tuple[float, ...]
    residual: float
    equals: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the explanation in a sentence, without its end."""
        more = f", which is also {' or '.join(self.equals)}; this round cannot tell which" if self.equals else ""
        return f"{self.says}{more} ({self.residual:.1g} of the update is left unexplained)"


@dataclass(frozen=True)
class Replay:
    """The description, run, beside what was really sent.

    Attributes:
        matches: whether they agree as far as rounding allows.
        error: their distance relative to the norm of what was sent.
        cosine: of the angle between them.
        factor: of the replay that brings it nearest.
        tolerance: error up to which they agree: 1e-4, or five times the rounding of what was sent or of the replay.
        tensors: the same tensor by tensor.
        explanations: where they do not agree, what explains it equally well, the simplest first; empty if nothing does.
        nearest: what was tried and came nearest, if nothing explains it; None if nothing helps.
        excluded: names of all mistakes that were tried alone and do not explain it.
        pairs: pairs that were tried, and all that there are.
        notes: what is known besides, in sentences.
        corrected: the case with the first explanation in its client and samples, from which later stages go on: the
            case itself where the description is right, None where nothing explains the update or no client does it.
        drawn: whether they agree because the client's defense draws, as far as rounds of it agree with each other.
        hidden: whether what it draws is too large to tell a right description from a wrong one.
        runs: rounds that were replayed.
        seconds: how long that took the thread that called.
    """

    matches: bool
    error: float
    cosine: float
    factor: float
    tolerance: float
    tensors: tuple[TensorError, ...]
    explanations: tuple[Explanation, ...] = ()
    nearest: Explanation | None = None
    excluded: tuple[str, ...] = ()
    pairs: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()
    corrected: Case | None = None
    drawn: bool = False
    hidden: bool = False
    runs: int = 1
    seconds: float = 0.0

    @property
    def client(self) -> Client | None:
        """The client with which later stages go on; None where there is none."""
        return None if self.corrected is None else self.corrected.client

    def lines(self) -> tuple[str, ...]:
        """Return what was found in sentences, the verdict first."""
        if self.matches:
            told = f"The description is right: its replay differs from what was sent by {self.error:.1g} of its norm"
            cause = "what its defense draws" if self.drawn else "rounding"
            return (f"{told}, and up to {self.tolerance:.1g} is {cause}.", *self.notes)
        worst = sorted(self.tensors, key=lambda entry: -entry.error)[:SHOWN]
        lines = [
            f"The description is not what was run: its replay differs from what was sent by {self.error:.3g} of its "
            f"norm (cosine {self.cosine:.4f}, best factor {self.factor:.4g}), most in "
            f"{', '.join(f'{entry.name} ({entry.error:.2g})' for entry in worst)}."
        ]
        if len(self.explanations) == 1:
            lines.append(f"Explained by {self.explanations[0].line()}.")
        elif self.explanations:
            lines.append(f"{len(self.explanations)} explanations fit equally, the simplest first:")
            lines += [f"{place}. {one.line()}." for place, one in enumerate(self.explanations, 1)]
        else:
            lines += self._unexplained()
        return (*lines, *self.notes)

    def _unexplained(self) -> list[str]:
        tried = f"{len(self.excluded)} mistakes alone and {self.pairs[0]} of {self.pairs[1]} pairs"
        lines = [f"Not explained: neither of {tried} gives what was sent. Excluded: {', '.join(self.excluded)}."]
        if self.nearest is not None:
            lines.append(f"Nearest, and no explanation, is {self.nearest.line()}.")
        return lines

    def record(self) -> dict[str, Any]:
        """Return all of it for JSON, without the corrected case."""
        names = [name for name in self.__dataclass_fields__ if name != "corrected"]
        plain = {name: _plain(getattr(self, name)) for name in names}
        return plain | {"lines": list(self.lines())}


def _plain(value: Any) -> Any:
    if isinstance(value, (Explanation, TensorError)):
        return asdict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value
