"""The chain behind a file as people and programs read it: every link, a summary by rule, or JSON."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.planning.run_records import checked_ledger
from leaklab.records.environment import duration
from leaklab.records.ledger import Entry


@dataclass(frozen=True)
class Link:
    """One file of a chain.

    Attributes:
        depth: how many steps lie between it and the file that was asked for.
        path: relative to the project's root.
        entry: the record of the job that made it; None for what no job made, or whose record is not here.
        first: whether its record comes here for the first time in the chain.
    """

    depth: int
    path: str
    entry: Entry | None
    first: bool


def in_checkout(file: str) -> str:
    """Return a path as records name it, relative to this folder; as it was written where it lies outside."""
    root = Path.cwd()
    for path in (root / file, Path(os.path.realpath(root / file))):  # resolve() fails at a loop of links
        if path.is_relative_to(root) and ".." not in path.parts:
            return path.relative_to(root).as_posix()
    return file


def chain_of(file: str) -> list[Link]:
    """Return the chain behind a file of this checkout.

    Raises:
        UserError: no record names the file.
    """
    ledger, name = checked_ledger(), in_checkout(file)
    ledger.maker(name)
    seen: set[Path] = set()
    links = []
    for depth, path, entry in ledger.chain(name):
        links.append(Link(depth, path, entry, entry is not None and entry.path not in seen))
        if entry is not None:
            seen.add(entry.path)
    return links


def lines(links: list[Link]) -> Iterator[str]:
    """Yield every link, indented by its depth, and the raw data below the job that read them."""
    for link in links:
        margin = "  " * link.depth
        if link.entry is None:
            yield f"{margin}{link.path}  ({_without_record(link.path)})"
            continue
        made = f"{link.entry.rule} at {_commit(link.entry)}, code {link.entry.content['code']}"
        yield f"{margin}{link.path}  sha256 {link.entry.outputs[link.path][:16]}  {made}"
        for source in _sources(link):
            yield f"{margin}  {source['path']}  sha256 {source['sha256']}  (raw data, {source['source']})"


def summary(links: list[Link]) -> Iterator[str]:
    """Yield a line for each rule behind the file, the raw data, and what is not here."""
    jobs = [link.entry for link in links if link.entry is not None and link.first]
    yield f"{links[0].path}: {_jobs(jobs)} behind it"
    for rule in dict.fromkeys(entry.rule for entry in jobs):
        own = [entry for entry in jobs if entry.rule == rule]
        commits = sorted({_commit(entry) for entry in own})
        seconds = sum(float(entry.content.get("cpu_seconds") or 0.0) for entry in own)
        yield f"  {rule}: {_jobs(own)}, {duration(seconds)} of processors, at {', '.join(commits)}"
    yield from dict.fromkeys(
        f"  {source['path']}: sha256 {source['sha256']}, raw data from {source['source']}"
        for link in links
        for source in _sources(link)
    )
    absent = {link.path for link in links if link.entry is None and not Path(link.path).is_file()}
    if absent:
        yield f"  {len(absent)} files behind it are not in this checkout, so the chain ends there"


def as_json(links: list[Link]) -> list[dict[str, Any]]:
    """Return the links for programs: paths, hashes, rules, commits, specs and where each file lies here."""
    return [
        {
            "path": link.path,
            "absolute_path": str(Path(link.path).resolve()),
            "depth": link.depth,
            "here": Path(link.path).is_file(),
            "sha256": link.entry.outputs[link.path] if link.entry else None,
            "record": str(link.entry.path) if link.entry else None,
            "rule": link.entry.rule if link.entry else None,
            "commit": link.entry.content.get("commit") if link.entry else None,
            "dirty": link.entry.content.get("dirty") if link.entry else None,
            "code": link.entry.content["code"] if link.entry else None,
            "spec": link.entry.content["spec"] if link.entry and link.first else None,
            "sources": _sources(link),
        }
        for link in links
    ]


def _sources(link: Link) -> list[dict[str, str]]:
    """Return the raw data that the job of a link read, once in a chain."""
    return list(link.entry.content["facts"].get("sources", [])) if link.entry and link.first else []


def _jobs(entries: list[Entry]) -> str:
    return f"{len(entries)} job{'' if len(entries) == 1 else 's'}"


def _commit(entry: Entry) -> str:
    return (entry.content.get("commit") or "no commit")[:10] + ("+changes" if entry.content.get("dirty") else "")


def _without_record(path: str) -> str:
    return "an input of this repository" if Path(path).is_file() else "not in this checkout"
