"""Which data sets cannot be had here, so that a plan leaves their runs out and results show them as not run.

A data set is at hand if it is prepared, embedded, among the downloads or in the mirror, or if its official source
answers. That is found out once in a call, by the process that the user started; the processes of its jobs are told
through their environment, so that all see the same plan.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from leaklab.data.catalog import TEXTS, Entry, find_entry, find_text, load_catalog
from leaklab.data.fetch import DOWNLOADS, MIRROR_VARIABLE, answering, mirror_folder
from leaklab.items.items import Item, with_missing
from leaklab.planning.plan import PREPARED, Plan, result_files
from leaklab.planning.run_records import lacked_data
from leaklab.records.config import Scale
from leaklab.specs.text import TEXT_FOLDER

VARIABLE = "LEAKLAB_MISSING"
Reasons = Mapping[str, str]
"""Data set -> why it cannot be had."""
Missing = dict[str, dict[str, Reasons]]
"""Scale -> item -> reasons."""


def found_before() -> Missing:
    """Return what the process that the user started has found out."""
    found: Missing = json.loads(os.environ.get(VARIABLE) or "{}")
    return found


def pass_on(missing: Missing) -> None:
    """Leave what was found out to the processes of the jobs."""
    os.environ[VARIABLE] = json.dumps(missing, sort_keys=True)


def without_missing(items: Mapping[str, Item], missing: Missing) -> dict[str, Item]:
    """Return the items as they are where data are missing."""
    found = dict(items)
    for scale, by_item in missing.items():
        for key, reasons in by_item.items():
            found[key] = with_missing(found[key], scale, reasons)  # type: ignore[arg-type]
    return found


def find_missing(plan: Plan, scale: Scale, keys: Iterable[str], answer: Callable[..., set[str]] = answering) -> Missing:
    """Look for the data of some items of a scale.

    A table that was made with a data set stays in the plan when the data set is gone: nothing has to run for it, and
    its numbers must not give way to "not run".

    Args:
        plan: of all items, as if all data were there.
        scale: scale that is asked for.
        keys: items that are asked for.
        answer: returns those of some addresses whose hosts answer.

    Raises:
        UserError: ``LEAKLAB_MIRROR`` names no folder, or a catalog is wrong.
    """
    wanted = {key: {job.dataset for job in plan.jobs_of(scale, plan.items[key]) if job.dataset} for key in keys}
    reasons = why_missing(sorted(set().union(*wanted.values())), answer)
    found: dict[str, Reasons] = {}
    for key, datasets in wanted.items():
        gone = {name: reasons[name] for name in sorted(datasets) if name in reasons}
        gone = {name: why for name, why in gone.items() if name not in _made_with(plan.items[key], scale, gone)}
        if gone:
            found[key] = gone
    return {scale: found} if found else {}


def why_missing(names: Iterable[str], answer: Callable[..., set[str]] = answering) -> dict[str, str]:
    """Return data set -> why it cannot be had, for those of ``names`` that cannot."""
    entries = {name: entry for name, entry in _entries(names).items() if not _here(name, entry)}
    addresses = {name: _first_address_of_each_host(entry) for name, entry in entries.items()}
    reached = answer(sorted({address for own in addresses.values() for address in own}))
    return {
        name: _reason(entry, [address for address in addresses[name] if address not in reached])
        for name, entry in entries.items()
        if not addresses[name] or not reached.issuperset(addresses[name])
    }


def _entries(names: Iterable[str]) -> dict[str, Entry]:
    unprepared = [name for name in names if not _prepared(name)]
    catalog = load_catalog() if any(not name.startswith(TEXT_FOLDER) for name in unprepared) else {}
    return {
        name: find_text(name.removeprefix(TEXT_FOLDER), TEXTS)
        if name.startswith(TEXT_FOLDER)
        else find_entry(name, catalog)
        for name in unprepared
    }


def _prepared(name: str) -> bool:
    endings = ("json",) if name.startswith(TEXT_FOLDER) else ("safetensors", "json")
    return all((PREPARED / f"{name}.{ending}").is_file() for ending in endings)


def _here(name: str, entry: Entry) -> bool:
    if entry.embedded or entry.own:
        return True
    mirror = mirror_folder()
    # a part of it is a damaged mirror, which fetch_dataset refuses with a line of its own
    if mirror and entry.mirror and any((mirror / file.path).exists() for file in entry.mirror.files.values()):
        return True
    return bool(entry.official) and not _to_download(entry)


def _to_download(entry: Entry) -> list[str]:
    files = entry.official.files.values() if entry.official else ()
    return [file.url for file in files if not (DOWNLOADS / file.path).exists()]


def _first_address_of_each_host(entry: Entry) -> list[str]:
    by_host = {urlsplit(address).netloc: address for address in reversed(_to_download(entry))}
    return sorted(by_host.values())


def _reason(entry: Entry, silent: list[str]) -> str:
    """Say why, without a folder of this machine: the text is part of results."""
    if silent:
        hosts = " and ".join(sorted({urlsplit(address).netloc for address in silent}))
        return f"data not here: {entry.title} ({hosts} cannot be reached)"
    assert entry.mirror
    return f"data not here: {entry.title} (not in {MIRROR_VARIABLE}, and nobody publishes it for download)"


def _made_with(item: Item, scale: Scale, names: Iterable[str]) -> set[str]:
    """Return those of the data sets whose numbers the item's table already has."""
    files = result_files(item, scale)
    record = Path(files["table_record"])
    if not (files["csv"].is_file() and record.is_file()):
        return set()
    lacked = lacked_data(record)
    return {name for name in names if name not in lacked}
