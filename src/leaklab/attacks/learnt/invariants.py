"""What stays of a tensor when its entries are mixed: sizes, products of rows or columns; a law of the defense.

A defense that rotates, moves or turns entries by a secret that it draws anew keeps something of each tensor, and of
that the gradient is all that an attacker needs. Of each tensor G [rows, columns], the most telling is taken that stays
in every rehearsal::

    entries    G          sizes      |G|, in their places      row products     G' G
    sorted     |G|, by size          length    |G|_2           column products  G G'

or the same of G / |G|_2, where its length does not stay. What stays of what was sent, o, differs from that of the
gradient by the error e of the search's stage alone, relative to its root mean square.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from leaklab.attacks.learnt.linear import TINY, Rehearsals
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened

SAME = 1e-6
"""Relative difference that a detour by float32 explains."""
NOTHING = "nothing"


@dataclass(frozen=True)
class Invariant:
    """What stays of one tensor.

    Attributes:
        kind: one of ``DIFFERENCES``, or ``NOTHING``.
        of_unit_length: it stays of the tensor over its length.
    """

    kind: str
    of_unit_length: bool = False


@dataclass(frozen=True)
class InvariantLaw(OnlyWidened):
    """What stays of each tensor; a ``distances.Likelihood``.

    Attributes:
        tensors: one of each.
    """

    tensors: tuple[Invariant, ...]

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""
        return Differentiated(partial(_value, law=self, error=error))


def _entries(one: Tensor, other: Tensor) -> Tensor:
    return ((one - other) ** 2).flatten(1).sum(1) / _square(other)


def _sizes(one: Tensor, other: Tensor) -> Tensor:
    return _entries(one.abs(), other.abs())


def _sorted(one: Tensor, other: Tensor) -> Tensor:
    return _entries(one.abs().flatten(1).sort(1).values, other.abs().flatten(1).sort(1).values)


def _row_products(one: Tensor, other: Tensor) -> Tensor:
    """Return |A'A - B'B|^2 / |B'B|^2 by products of the smaller side, as |A'B|^2 needs no matrix of columns squared."""
    own, others, both = (_square(a @ b.mT) for a, b in ((one, one), (other, other), (one, other)))
    return (own + others - 2 * both).clamp(min=0.0) / others.clamp(min=TINY)


def _column_products(one: Tensor, other: Tensor) -> Tensor:
    return _entries(one @ one.mT, other @ other.mT)


def _length(one: Tensor, other: Tensor) -> Tensor:
    return (_square(one).clamp(min=TINY).sqrt() / _square(other).sqrt() - 1) ** 2


def _square(value: Tensor) -> Tensor:
    return (value**2).flatten(1).sum(1).clamp(min=TINY)


DIFFERENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "entries": _entries,
    "sizes": _sizes,
    "row products": _row_products,
    "column products": _column_products,
    "sorted": _sorted,
    "length": _length,
}
"""Name -> squared relative difference [T] of what two tensors [T, rows, columns] have; the most telling first."""
OF_MATRICES = ("row products", "column products")


def learnt(rehearsals: Rehearsals, shapes: Sequence[torch.Size]) -> InvariantLaw | None:
    """Return what stays in every rehearsal; None where it is no more than lengths.

    Args:
        rehearsals: gradients and what was sent.
        shapes: of the tensors.
    """
    pairs = zip(rehearsals.gradients, rehearsals.sent, shapes, strict=True)
    found = tuple(_staying(_matrix(g, shape), _matrix(o, shape)) for g, o, shape in pairs)
    return InvariantLaw(found) if any(one.kind not in (NOTHING, "length") for one in found) else None


def _matrix(value: Tensor, shape: torch.Size) -> Tensor:
    """Return tensors [T, n] as [T, rows, columns]; a vector is one row."""
    return value.reshape(len(value), shape[0] if len(shape) > 1 else 1, -1)


def _staying(gradient: Tensor, sent: Tensor) -> Invariant:
    kinds = [kind for kind in DIFFERENCES if gradient.shape[1] > 1 or kind not in OF_MATRICES]
    for unit in (False, True):
        one, other = (_unit(gradient), _unit(sent)) if unit else (gradient, sent)
        for kind in kinds if not unit else kinds[:-1]:
            if float(DIFFERENCES[kind](one, other).max()) <= _rounding(kind):
                return Invariant(kind, unit)
    return Invariant(NOTHING)


def _rounding(kind: str) -> float:
    # a difference of squares of squares is known to the root of the machine's precision
    return 1e-11 if kind == "row products" else SAME**2


def _unit(value: Tensor) -> Tensor:
    return value / _square(value).sqrt()[:, None, None]


def _value(gradients: Sequence[Tensor], observed: Sequence[Tensor], law: InvariantLaw, error: float) -> Tensor:
    total = observed[0].new_zeros(len(observed[0]))
    for gradient, sent, own in zip(gradients, observed, law.tensors, strict=True):
        if own.kind == NOTHING:
            continue
        one, other = (_matrix(value.flatten(1), sent.shape[1:]) for value in (gradient, sent))
        one, other = (_unit(one), _unit(other)) if own.of_unit_length else (one, other)
        entries = 1 if own.kind == "length" else sent[0].numel()
        total = total + entries * DIFFERENCES[own.kind](one, other) / (2 * error**2)
    return total
