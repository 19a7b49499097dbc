"""What items expand to, kept between processes, item by item and scale by scale.

A process of Snakemake, a command and a report all ask for the same plans. An item's runs are found by all that decides
them: our code, the libraries that read and validate, and the item with what is missing of its data. Items of one's own
may name guests from anywhere, so that they are expanded each time.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from leaklab.items.items import Item
from leaklab.planning.kept_runs import KeptRuns, NotPlainError, rebuilt, written
from leaklab.planning.names import PAPER
from leaklab.planning.plan import Plan, build_plan
from leaklab.records.config import SCALES, Scale
from leaklab.records.kept_json import KEPT, keep_json, key_of, read_kept_json
from leaklab.records.kept_models import versions

Kept = dict[str, dict[str, Any]]
"""Item -> digest of it -> its runs."""
AS_IT_WAS = 2
"""Versions of an item that are kept."""


def known_plan(items: Mapping[str, Item], scales: Sequence[Scale] = SCALES) -> Plan:
    """Return ``build_plan`` of the same, with what is known of processes before; what is new is kept.

    Raises:
        UserError: see ``build_plan``.
    """
    keeper = KeptPlans()
    plan = build_plan(items, scales, keeper)
    keeper.save()
    return plan


class KeptPlans:
    """The runs of items, in a file for each scale: of an item as it is and as it was, with and without its data say."""

    def __init__(self) -> None:
        """Read no file yet."""
        self._key = key_of(versions())
        self._before: dict[Scale, Kept] = {}
        self._new: dict[Scale, Kept] = {}
        self._digests: dict[int, tuple[Item, str]] = {}

    def find(self, item: Item, scale: Scale) -> KeptRuns | None:
        """Return the runs of an item at a scale; None where they are not known."""
        if item.paper == PAPER:
            return None
        if scale not in self._before:
            self._before[scale] = self._read(scale)
        kept = self._before[scale].get(item.key, {}).get(self._digest(item))
        return rebuilt(kept) if kept else None

    def note(self, item: Item, scale: Scale, runs: KeptRuns) -> None:
        """Keep the runs of an item."""
        if item.paper != PAPER:
            with suppress(NotPlainError):
                self._new.setdefault(scale, {})[item.key] = {self._digest(item): written(runs)}

    def save(self) -> None:
        """Write what is new beside what another process has kept meanwhile."""
        for scale, new in self._new.items():
            every = self._read(scale)
            for key, own in new.items():
                every[key] = {**dict(list(every.get(key, {}).items())[1 - AS_IT_WAS :]), **own}
            keep_json(KEPT / f"plan-{scale}.json", self._key, every)
        self._new = {}

    def _read(self, scale: Scale) -> Kept:
        found: Kept = read_kept_json(KEPT / f"plan-{scale}.json", self._key) or {}
        return found

    def _digest(self, item: Item) -> str:
        if id(item) not in self._digests:
            self._digests[id(item)] = item, hashlib.sha256(item.model_dump_json().encode()).hexdigest()
        return self._digests[id(item)][1]
