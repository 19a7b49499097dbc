"""All laws that an attacker tries on a defense, the simplest first, and how one is written down and read again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from leaklab.attacks.learnt import entries, invariants, linear, runs
from leaklab.attacks.learnt.entries import EntryLaw, EntryLaws
from leaklab.attacks.learnt.invariants import Invariant, InvariantLaw
from leaklab.attacks.learnt.linear import LinearLaw, Rehearsals
from leaklab.attacks.learnt.runs import SlicedLaw
from leaklab.attacks.matching.distances import OnlyWidened
from leaklab.records.errors import UserError

LINEAR, STAYS, RUNS, ENTRIES = "linear law", "what stays", "law of runs", "law of the entry"
KINDS: Mapping[str, tuple[type[OnlyWidened], type | None]] = {
    LINEAR: (LinearLaw, None),
    STAYS: (InvariantLaw, Invariant),
    RUNS: (SlicedLaw, None),
    ENTRIES: (EntryLaws, EntryLaw),
}
"""Name -> its class, and that of what it has of each tensor."""
TENSOR = "tensor"


def laws(rehearsals: Rehearsals, shapes: Sequence[torch.Size]) -> Iterator[tuple[str, OnlyWidened]]:
    """Yield each law that explains rehearsals, with its name; one that the defense is none of is left out.

    Args:
        rehearsals: gradients and what was sent.
        shapes: of the tensors.
    """
    yield LINEAR, linear.learnt(rehearsals)
    for name, law in ((STAYS, invariants.learnt(rehearsals, shapes)), (RUNS, runs.learnt(rehearsals))):
        if law is not None:
            yield name, law
    yield ENTRIES, entries.learnt(rehearsals)


def written(name: str, law: OnlyWidened) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a law as plain values, and the tensors that these name."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors[key := str(len(tensors))] = value
            return {TENSOR: key}
        if isinstance(value, tuple):
            return [plain(one) for one in value]
        if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return value

    return {"name": name, "law": plain(law)}, tensors


def read(description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> OnlyWidened:
    """Return the law that ``written`` wrote down.

    Raises:
        UserError: it is none.
    """
    try:
        kind, part = KINDS[description["name"]]

        def found(value: Any) -> Any:
            if isinstance(value, list):
                return tuple(found(one) for one in value)
            if isinstance(value, dict):
                if set(value) == {TENSOR}:
                    return tensors[value[TENSOR]]
                assert part
                return part(**{name: found(one) for name, one in value.items()})
            return value

        return kind(**{name: found(value) for name, value in description["law"].items()})
    except (KeyError, TypeError, AttributeError):
        raise UserError("the learnt law is damaged: delete its folder and run snakemake again") from None
