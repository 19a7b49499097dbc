"""Which code a job runs: what its step does, and the plug-ins that its spec names."""

import atexit
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from leaklab.items.expand import block_stage, expand, expand_absent
from leaklab.items.items import FIGURES, Item, load_item
from leaklab.records import code
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.records.kept_json import PACKAGE_FOLDER, hash_of_package, hash_of_sources
from leaklab.records.plugins import find
from leaklab.specs.base import Spec
from leaklab.specs.training import PartitionSpec, TrainSpec

# Digests of code that another process found in the same sources.

FILE = Path(".snakemake/code-digests.json")


@dataclass
class KeptDigests:
    """The digests of some sources.

    Attributes:
        sources: hash of all modules of ours.
        file: where they are kept; a folder that is not there is not made.
        digests: by what they are of.
        new: whether there are some that the file lacks.
    """

    sources: str
    file: Path
    digests: dict[str, str] = field(default_factory=dict)
    new: bool = False

    @classmethod
    def load(cls, sources: str, file: Path) -> "KeptDigests":
        """Read what is kept for these sources; nothing where the file is of others or damaged."""
        found = cls(sources, file)
        with suppress(OSError, ValueError):
            content = json.loads(file.read_text(encoding="utf-8"))
            kept = content.get("digests") if isinstance(content, dict) and content.get("sources") == sources else {}
            if isinstance(kept, dict) and all(isinstance(value, str) for value in kept.values()):
                found.digests = kept
        return found

    def digest(self, step: str, plugins: Sequence[str] = (), loaded: Sequence[str] = ()) -> str:
        """Return ``records.code.digest`` of the same."""
        name = f"{' '.join((step, *plugins))} | {' '.join(loaded)}"
        if name not in self.digests:
            self.digests[name], self.new = code.digest(step, plugins, loaded), True
        return self.digests[name]

    def save(self) -> None:
        """Keep what is new, beside what another process has kept meanwhile."""
        if self.new and self.file.parent.is_dir():
            every = {**self.load(self.sources, self.file).digests, **self.digests}
            with suppress(OSError, UserError):
                write_json(self.file, {"sources": self.sources, "digests": every})


@cache
def kept_digests() -> KeptDigests:
    """Return those of the sources that are here, which are kept when the process ends."""
    ours = code.SOURCE / PACKAGE_FOLDER.name
    found = KeptDigests.load(hash_of_package() if ours == PACKAGE_FOLDER else hash_of_sources(ours), Path.cwd() / FILE)
    atexit.register(found.save)
    return found


COLLECTORS = "report/collect"
COLLECTOR_OF_STAGE = {
    "train": "training",
    "score": "attacks",
    "landscape": "landscapes",
    "score-text": "text",
    "check": "checks",
    "architecture": "checks",
}
"""Module of the room that reads the runs of a stage into a table."""


def collector_module(name: str) -> str:
    """Return the module of a collector, which is no plug-in: no spec names it."""
    return f"leaklab.{COLLECTORS.replace('/', '.')}.{name}"


TABLE, FIGURE, DRAWING = "make_table", "make_figure", "draw_partition"
Plugins = Sequence[tuple[str, str]]
"""Room and name of each."""


@dataclass(frozen=True)
class Code:
    """The code that a job runs.

    Attributes:
        rule: its rule.
        plugins: those that it executes beside its step.
        loaded: those of which it may load some, by names that no spec tells (``records/code.py::digest``).
    """

    rule: str
    plugins: tuple[tuple[str, str], ...] = ()
    loaded: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Rule and plug-ins: all jobs of one key run the same code, e.g. ``train_federated models/mlp``."""
        return " ".join((self.rule, *sorted({f"{room}/{name}" for room, name in self.plugins})))

    @property
    def digest(self) -> str:
        """The digest of all that it reaches."""
        return _digest_of(f"leaklab.steps.{self.rule}", _starts(self.plugins), _starts(self.loaded))


def code_of(spec: Spec) -> Code:
    """Return the code of a run."""
    return Code(spec.rule, spec.executed_plugins(), spec.loadable_plugins())


def code_of_result(rule: str, paper: str = "", item: str = "", scale: str = "", partition: str = "") -> Code:
    """Return the code of a step that no run is of.

    Args:
        rule: its rule.
        paper: of the item that it makes something of, if any.
        item: its key within the paper.
        scale: at which.
        partition: that it draws, if any.
    """
    if partition:
        return Code(rule, (("data/partitions", partition),))
    file = Path("config/items", paper, f"{item}.yaml")
    if rule == FIGURE:
        return Code(rule, _renderer(file))
    return Code(rule, _plugins_of_table(file, scale) if rule == TABLE else ())


def code_of_own_result(rule: str, file: Path, scale: str) -> Code:
    """Return the code of a step that makes something of an item whose file stands elsewhere."""
    if rule == FIGURE:
        return Code(rule, _renderer(file))
    return Code(rule, _plugins_of_table(file, scale) if rule == TABLE else ())


def code_of_record(rule: str, told: Mapping[str, Any]) -> Code:
    """Return the code of a step that no run is of, from what its record says that it was told.

    Of an item that is damaged here no more is known than its rule.
    """
    partition = told["partition"]["name"] if rule == DRAWING else ""
    paper, item, scale = (str(told.get(key, "")) for key in ("paper", "item", "scale"))
    try:
        return code_of_result(rule, paper, item, scale, partition)
    except UserError:
        return Code(rule)


def _renderer(file: Path) -> tuple[tuple[str, str], ...]:
    item = _item_of(*_state(file))
    return ((FIGURES, item.renderer),) if item is not None and item.own_renderer else ()


def _plugins_of_table(file: Path, scale: str) -> tuple[tuple[str, str], ...]:
    return _collected(*_state(file), scale)


def _state(file: Path) -> tuple[Path, tuple[int, ...]]:
    """Return where a file lies and what tells it from what lay there before; nothing where there is none."""
    if not file.is_file():
        return file, ()
    found = file.stat()
    return file, (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


# A call of Snakemake asks several times for the code of each table and figure.


@cache
def _item_of(file: Path, state: tuple[int, ...]) -> Item | None:
    return load_item(file) if state else None


@cache
def _collected(file: Path, state: tuple[int, ...], scale: str) -> tuple[tuple[str, str], ...]:
    """Return the collectors of a table's stages, and what they ask: networks to describe, deals of embeddings."""
    item = _item_of(file, state)
    if item is None or scale not in item.scales:
        return ()
    found: set[tuple[str, str]] = set()
    for run in (*expand(item, scale), *(run for run, _ in expand_absent(item, scale))):
        found.add((COLLECTORS, COLLECTOR_OF_STAGE[block_stage(run)]))
        if run.spec is None:
            found.add(("models", run.choice["model"]["name"]))
        elif run.spec.stage == TrainSpec.stage and item.cells and item.cells.embedding:
            deals = (one for one in run.spec.needs() if one.stage == PartitionSpec.stage)
            found.update(plugin for deal in deals for plugin in deal.executed_plugins())
    return tuple(sorted(found))


def _starts(plugins: Plugins) -> tuple[str, ...]:
    collectors = (f"{collector_module(name)}:*" for room, name in plugins if room == COLLECTORS)
    return (*collectors, *(find(room, name).start for room, name in plugins if room != COLLECTORS))


@cache
def _digest_of(step: str, plugins: tuple[str, ...], loaded: tuple[str, ...]) -> str:
    return kept_digests().digest(step, plugins, loaded)
