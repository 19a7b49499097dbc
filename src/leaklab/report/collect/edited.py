"""Items that were edited after their results: words, and what other scales compute, make no result stale.

A table's record states the hash of its item's file. Where the file has other bytes now, ``leaklab pack`` keeps the text
that was read, of git's history, beside the table: if both ask for the same at the table's scale, the table is what the
file here would give. The audit reads what is kept alone, so that a copy without a history, too, can be audited.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from leaklab.items.expand import PlannedRun, expand, expand_absent
from leaklab.items.items import ITEMS, Cells, Item, RowValue, load_item
from leaklab.planning.run_records import checked_ledger
from leaklab.provenance.published import ITEM_READERS, items_read, kept_at
from leaklab.records import git
from leaklab.records.config import Scale, parse, plain_data
from leaklab.records.errors import UserError
from leaklab.records.files import atomic
from leaklab.records.files import sha256 as file_sha256
from leaklab.records.record import canonical_json
from leaklab.report.collect import item as collecting
from leaklab.report.collect.source import Collected, Source, dataset_of, network_of

WORDS = {"shows": "", "reading": "", "open": (), "claims": (), "number": 1}
"""Fields for pages alone, each with the value that stands for any."""


def only_words_changed(path: str, recorded: str, record: Mapping[str, Any], root: Path) -> bool:
    """Tell whether the result of a record would be the same of the item's file here.

    Args:
        path: the file, from the project's root.
        recorded: SHA-256 of what was read, as hex.
        record: the record of a table or figure; any other record gives False.
        root: the project's folder.
    """
    if record["rule"] not in ITEM_READERS or not Path(path).is_relative_to(ITEMS):
        return False
    kept = root / kept_at(record["spec"], recorded)
    if not kept.is_file() or file_sha256(kept) != recorded:
        return False
    return same_at(record["spec"]["scale"], kept.read_bytes(), root / path)


def keep_texts(scale: Scale, root: Path = Path()) -> Iterator[str]:
    """Keep the texts that tables of edited items were read from, drop those that none is, and yield a line for each.

    Args:
        scale: whose tables and figures.
        root: a checkout with its history.

    Raises:
        UserError: a record is damaged, or git does not answer.
    """
    met, ledger = set(), checked_ledger(root)
    for entry in ledger.entries:
        for path, recorded in items_read(entry):
            kept = kept_at(entry.content["spec"], recorded)
            met.add(kept)
            if entry.content["spec"]["scale"] != scale or not (root / path).is_file() or (root / kept).is_file():
                continue
            if file_sha256(root / path) == recorded:
                continue
            old = _in_history(root, path).get(recorded)
            if old is not None and same_at(entry.content["spec"]["scale"], old, root / path):
                with atomic(root / kept) as temporary:
                    temporary.write_bytes(old)
                yield f"{kept}: the text of {path} that {entry.path} was made from; what it asks for is unchanged"
    for file in root.glob(f"results/{scale}/*/*.????????????.yaml"):
        if file.relative_to(root) not in met:
            file.unlink()
            yield f"{file.relative_to(root)}: removed: nothing here was made from it"


def same_at(scale: Scale, old: bytes, file: Path) -> bool:
    """Tell whether an item's file asks for the same at a scale as an older text of it.

    False too where one of them is no item, or cannot be expanded any more.
    """
    try:
        before = parse(Item, plain_data(old.decode()), file)
        return _asked(before, scale) == _asked(load_item(file), scale)
    except (UserError, yaml.YAMLError, ValueError):
        return False


def _asked(item: Item, scale: Scale) -> tuple[Any, ...]:
    """Return what the steps of a scale read of an item."""
    runs, absent = expand(item, scale), expand_absent(item, scale)
    met = {text for run in runs for text in _texts(run.choice)}
    cells = item.cells and _cells(item.cells, met)
    layout = item.model_copy(update={**WORDS, "runs": {}, "scales": {}, "cells": cells})
    source = source_of(item, scale)
    missing = list(collecting._absent_rows(source, absent))
    return layout, runs, [_meant(run, source) for run in runs], missing, item.scales[scale].note


def source_of(item: Item, scale: Scale) -> Source:
    """Return what ``collect`` hands to the collectors of an item, made as there: its text ages all tables."""
    runs = [*expand(item, scale), *(run for run, _ in expand_absent(item, scale))]
    printed = collecting._specs(expand(item, "paper"))
    here = collecting._specs(sorted(runs, key=lambda run: list(item.runs).index(run.block)))
    return Source(
        item=item,
        scale=scale,
        at_paper_scale=frozenset(canonical_json(spec) for spec in printed),
        replaced=collecting._replaced(collecting._datasets(here), collecting._datasets(printed)),
        networks=collecting._networks(printed),
        generators=collecting._generators(printed),
        distances=collecting._distances(printed),
    )


def _meant(run: PlannedRun, source: Source) -> tuple[Any, ...]:
    """Return what a run stands for at scale ``paper``, of which its line says how it differs."""
    if not isinstance(run.spec, Collected):
        return ()
    dataset = dataset_of(run.spec)
    meant = source.replaced.get(dataset, dataset)
    printed = canonical_json(run.spec) in source.at_paper_scale
    networks = source.networks.get(meant, ())
    stands_in = bool(networks) and network_of(run.spec) not in networks
    return meant, stands_in and networks, source.generators, source.distances, printed


def _cells(cells: Cells, met: set[str]) -> Cells:
    """Return how runs become lines, without names for values that no run has."""
    row = {}
    for key, given in cells.row.items():
        source = given if isinstance(given, RowValue) else RowValue(**{"from": given})
        row[key] = source.model_copy(update={"names": {old: new for old, new in source.names.items() if old in met}})
    return cells.model_copy(update={"row": row})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _in_history(root: Path, path: str) -> Mapping[str, bytes]:
    """Return SHA-256 -> bytes of each version of a file that git has; nothing outside a checkout."""
    history = ("log", "--format=", "--raw", "--no-abbrev", "--no-renames", "--", path)
    try:
        lines = git.asked(*history, root=root).decode().splitlines()
    except git.NoCheckoutError:
        return {}
    blobs = {line.split()[3] for line in lines if line.startswith(":")}
    texts = [git.asked("cat-file", "blob", blob, root=root) for blob in sorted(blobs) if set(blob) != {"0"}]
    return {sha256(text).hexdigest(): text for text in texts}
