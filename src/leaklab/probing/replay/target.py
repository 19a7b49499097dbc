"""What was really sent, as one vector, and how far a replay is from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.probing.exchange import Exchange
from leaklab.records.streams import stream

MOST = 1 << 16
"""Entries that a search compares; the verdict is of all."""


@dataclass(frozen=True)
class Target:
    """The directions of the tensors that were sent, flat and in float64.

    Attributes:
        exchange: of which it is; its state before the round is what directions of sent weights are taken from.
        names: of the parameters that are compared.
        sent: directions [P], of the compared entries.
        rows: which entries these are; None for all.
    """

    exchange: Exchange
    names: tuple[str, ...]
    sent: Tensor
    rows: Tensor | None = None

    @classmethod
    def of(cls, exchange: Exchange, names: Sequence[str]) -> "Target":
        """Return the target of all entries of some parameters."""
        sent = torch.cat([exchange.direction(name).flatten() for name in names])
        return cls(exchange, tuple(names), sent)

    def at(self, rows: Tensor) -> "Target":
        """Return the target of some entries, of at most ``MOST`` of them."""
        if len(rows) > MOST:
            rows = rows[stream(0, "compared entries").permutation(len(rows))[:MOST].to(rows.device)].sort().values
        whole = self.rows is None and len(rows) == len(self.sent)
        return replace(self, sent=self.sent[rows], rows=None if whole else rows)

    def flat(self, got: Exchange) -> Tensor:
        """Return a replay's directions of the compared entries, [P]; what it did not send is zero."""
        parts = []
        for name in self.names:
            if name not in got.sent:
                part = torch.zeros_like(got.before[name], dtype=torch.float64)
            else:
                part = got.direction(name)
                if self.exchange.kind == "weights":
                    part = self.exchange.before[name].double() - (got.before[name].double() - part)
            parts.append(part.flatten())
        flat = torch.cat(parts)
        return flat if self.rows is None else flat[self.rows]

    def places(self) -> dict[str, Tensor]:
        """Return of each compared entry which row, and which column, of which tensor it lies in, [P] on the CPU."""
        found: dict[str, list[Tensor]] = {"rows": [], "columns": []}
        begun = {"rows": 0, "columns": 0}
        for name in self.names:
            shape = self.exchange.sent[name].shape
            high = shape[0] if len(shape) > 1 else 1
            wide = self.exchange.sent[name].numel() // max(high, 1)
            grid = torch.arange(high * wide)
            for axis, own, size in (("rows", grid // max(wide, 1), high), ("columns", grid % max(wide, 1), wide)):
                found[axis].append(begun[axis] + own)
                begun[axis] += size
        whole = {axis: torch.cat(parts) for axis, parts in found.items()}
        return whole if self.rows is None else {axis: part[self.rows.cpu()] for axis, part in whole.items()}

    def error(self, flat: Tensor) -> float:
        """Return the distance of directions [P] from what was sent, relative to its norm."""
        return float((self.sent - flat).norm() / self.sent.norm())

    def factor(self, flat: Tensor) -> float:
        """Return by which number directions [P] come closest to what was sent."""
        length = float(flat.square().sum())
        return float(self.sent @ flat) / length if length else 0.0

    def aligned(self, flat: Tensor) -> float:
        """Return the relative distance that remains after the best factor."""
        return self.error(self.factor(flat) * flat)

    def tensors(self, flat: Tensor) -> tuple["TensorError", ...]:
        """Return the same tensor by tensor, of directions of all entries."""
        sizes = [self.exchange.sent[name].numel() for name in self.names]
        found = []
        for name, sent, own in zip(self.names, torch.split(self.sent, sizes), torch.split(flat, sizes), strict=True):
            length, other = float(sent.norm()), float(own.norm())
            cosine = float(sent @ own) / (length * other) if length and other else 0.0
            share = float((sent - own).norm() / (length or other or 1.0))
            found.append(TensorError(name, share, cosine, other / length if length else 0.0))
        return tuple(found)


@dataclass(frozen=True)
class TensorError:
    """How far a replay is from what was sent, of one tensor.

    Attributes:
        name: of the tensor.
        error: distance relative to the norm of what was sent; of the replay's where that is zero.
        cosine: of the angle between them; 0 where one is zero.
        length: norm of the replay relative to that of what was sent; 0 where that is zero.
    """

    name: str
    error: float
    cosine: float
    length: float


def moved(exchange: Exchange, names: Sequence[str]) -> Mapping[str, bool]:
    """Return which parameters changed at all."""
    return {name: bool(exchange.direction(name).any()) for name in names}
