"""Items: each table, figure and theorem of the papers is one YAML file, ``config/items/<paper>/<item>.yaml``."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from leaklab.items.diagram_layout import DiagramLayout
from leaklab.items.layouts import (
    CurvesLayout,
    GridLayout,
    LandscapeLayout,
    PathsLayout,
    PicturesLayout,
    ScatterLayout,
    SentencesLayout,
    TableLayout,
)
from leaklab.records import plugins
from leaklab.records.config import Scale, parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.kept_json import KEPT
from leaklab.records.kept_models import read_models
from leaklab.records.record import Record

# Papers: each is a folder, ``config/items/<paper>/``, in which ``paper.yaml`` says what it is.

ITEMS = Path("config/items")
FILE = "paper.yaml"
KEY = r"^[a-z0-9]+(-[a-z0-9]+)*$"
# folders of a scale's own beside those of the papers
TAKEN = ("report", "provenance")


class Paper(Record):
    """A paper whose tables and figures are items.

    Attributes:
        order: place among the papers, in lists and in the report; papers with the same one follow their keys.
    """

    title: str = Field(min_length=1)
    citation: str = Field(min_length=1, description="authors, and the paper's short name")
    order: int = Field(ge=1, description="place among the papers")


@cache
def load_papers(root: Path = ITEMS) -> Mapping[str, Paper]:
    """Return key -> paper, in order.

    Raises:
        UserError: a folder has no ``paper.yaml``, a wrong one, or a name that no paper can have.
    """
    folders = sorted(path for path in root.glob("*/") if any(path.glob("*.yaml")))
    papers = {folder.name: _load(folder) for folder in folders}
    return dict(sorted(papers.items(), key=lambda pair: (pair[1].order, pair[0])))


def paper_file(key: str, root: Path = ITEMS) -> Path:
    """Return the paper's YAML file."""
    return root / key / FILE


def _load(folder: Path) -> Paper:
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{path} is missing: it says what the paper is, with the keys title, citation and order")
    if folder.name in TAKEN:
        raise UserError(f"{path}: no paper can be called '{folder.name}', a folder of every scale: rename {folder}")
    return parse(Paper, read_yaml(path), path)


HouseRenderer = Literal[
    "table",
    "image-grid",
    "defense-grid",
    "architecture",
    "curves",
    "paths",
    "scatter",
    "sentences",
    "latent-line",
    "latent-plane",
    "diagram",
]
FIGURES = "report/figures"
"""Room of the renderers that are plug-ins (``report/figures/drawings.py::Renderer``)."""


class RowValue(Record):
    """Where a row key's value comes from: a path into the run, and how it is renamed."""

    source: str = Field(alias="from")
    names: dict[str, Any] = Field(default_factory=dict, alias="as")


class Cells(Record):
    """How runs become lines of the result table.

    Attributes:
        row: key -> path into the run (``rates.0``), or ``{from: path, as: {value: name}}``.
        better: direction in which the paper's subject improves.
        series: columns of a training run that are kept for every tested round, with the row key ``index``:
            ``round``, ``train_loss``, ``test_accuracy``, ...
        metric_as: block -> metric -> name under which the papers print it, e.g.
            ``{imagenet: {test_accuracy: test_accuracy_top1}}``.
        embedding: of trainings; what clients keep under this name is shown in the plane, and how near clients with the
            same group of classes lie.
        over_images: of attacks; ``single`` keeps the number of every image beside their median, ``mean`` their mean
            alone, under the metric's own name.
        against: of attacks; the block beside whose attack every other one of its cell is put, update by update; empty
            for none.
    """

    row: dict[str, str | RowValue]
    better: Literal["higher", "lower", ""] = ""
    unit: str = ""
    metrics: dict[str, "MetricMeaning"] = Field(default_factory=dict)
    series: tuple[str, ...] = ()
    metric_as: dict[str, dict[str, str]] = Field(default_factory=dict)
    embedding: str = ""
    over_images: Literal["single", "mean"] = "single"
    against: str = ""


class MetricMeaning(Record):
    """Unit and direction of one metric where they differ from the item's own."""

    better: Literal["higher", "lower", ""] = ""
    unit: str = ""


class Comparison(Record):
    """How near to the printed number counts as reached (``config/papers/tolerances.yaml`` explains the classes)."""

    tolerance: str = Field(alias="class")
    center_by: tuple[str, ...] = ()


class ScaleChange(Record):
    """What a scale changes.

    Attributes:
        set: fields of every block, by dotted path.
        blocks: fields of single blocks.
        drop: blocks that this scale leaves out.
        absent: block -> why it cannot run here ("data not here: ..."); its rows are shown as not run.
        missing: data set -> why it cannot be had; runs on it are shown as not run. The workflow fills it in for what
            it finds missing (``planning/missing.py``).
        note: why, for the reader.
        planned: why the item does not run at this scale yet; empty where it does.
        apart: the item is made when it is asked for by name, and not with all others of the scale.
    """

    set: dict[str, Any] = Field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = Field(default_factory=dict)
    drop: tuple[str, ...] = ()
    absent: dict[str, str] = Field(default_factory=dict)
    missing: dict[str, str] = Field(default_factory=dict)
    note: str = ""
    planned: str = ""
    apart: bool = False


def _check_renderer(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse a renderer that is neither the house's nor a plug-in, or a setting that it does not have."""
    own = plugins.available(FIGURES)
    if name not in own:
        raise ValueError(
            f"there is no renderer '{name}': choose from {', '.join([*get_args(HouseRenderer), *own])}, or write one: "
            f"src/leaklab/{FIGURES}/{name.replace('-', '_')}.py"
        )
    try:
        plugins.check(FIGURES, name, settings)
    except UserError as error:
        raise ValueError(str(error)) from None


class Item(Record):
    """One table, figure, theorem or algorithm of a paper.

    Attributes:
        planned: why this item does not run yet; empty for items that do.
        renderer: one of the house, which reads its own section below, or a plug-in of ``report/figures``.
        figure: settings of a renderer that is a plug-in.
        reading: one or two plain sentences: what the reader should take from it.
        headline: metric that stands for the item on its paper's page (attacks).
        open: choices that the paper leaves open, and what was taken.
        runs: named blocks of runs (``items/expand.py``).
        expected: printed facts that are not numbers of ``targets.csv`` (layer tables).
    """

    paper: str = Field(pattern=KEY)
    item: str
    title: str
    number: int = Field(ge=1, description="place among the items of its paper")
    kind: Literal["table", "figure", "theorem", "algorithm"]
    shows: str = ""
    planned: str = ""
    renderer: HouseRenderer | str = ""
    figure: dict[str, Any] = Field(default_factory=dict)
    claims: tuple[str, ...] = ()
    reading: str = ""
    headline: str = ""
    open: tuple[str, ...] = ()
    runs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    cells: Cells | None = None
    table: TableLayout | None = None
    grid: GridLayout | None = None
    pictures: PicturesLayout | None = None
    curves: CurvesLayout | None = None
    paths: PathsLayout | None = None
    scatter: ScatterLayout | None = None
    sentences: SentencesLayout | None = None
    landscape: LandscapeLayout | None = None
    diagram: DiagramLayout | None = None
    comparison: Comparison | None = None
    expected: dict[str, Any] = Field(default_factory=dict)
    scales: dict[Scale, ScaleChange] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _runs_or_reason(self) -> "Item":
        if self.made == bool(self.planned):
            raise ValueError("an item has either 'runs' or a reason under 'planned' (a 'diagram' needs neither)")
        if self.made and not self.renderer:
            raise ValueError("an item with runs or a diagram needs a 'renderer'")
        if self.cells and self.cells.against not in ("", *self.runs):
            raise ValueError(f"cells.against: there is no block '{self.cells.against}': {', '.join(self.runs)}")
        if self.own_renderer:
            _check_renderer(self.renderer, self.figure)
        elif self.figure:
            raise ValueError(f"renderer '{self.renderer}' has a section of its own, and no settings under 'figure'")
        return self

    @property
    def own_renderer(self) -> bool:
        """Whether the figure is drawn by a plug-in."""
        return bool(self.renderer) and self.renderer not in get_args(HouseRenderer)

    @property
    def made(self) -> bool:
        """Whether there is something to make: runs, or a drawing that needs none."""
        return bool(self.runs or self.diagram)

    @property
    def key(self) -> str:
        """Return ``paper/item``."""
        return f"{self.paper}/{self.item}"


def with_missing(item: Item, scale: Scale, reasons: Mapping[str, str]) -> Item:
    """Return the item as it is at a scale where data sets are missing (data set -> why)."""
    if not reasons:
        return item
    change = item.scales[scale]
    changed = change.model_copy(update={"missing": {**change.missing, **reasons}})
    return item.model_copy(update={"scales": {**item.scales, scale: changed}})


def load_item(path: Path) -> Item:
    """Read and validate one item file."""
    item = parse(Item, read_yaml(path), path)
    if (item.paper, item.item) != (path.parent.name, path.stem):
        raise UserError(f"{path}: 'paper' and 'item' say {item.key}: they must match the file's place")
    return item


@cache
def load_items(root: Path = ITEMS) -> Mapping[str, Item]:
    """Read all items, paper by paper, in the order of their numbers."""
    places = {key: place for place, key in enumerate(load_papers(root))}
    paths = sorted(path for path in root.glob("*/*.yaml") if path.name != FILE)
    if not paths:
        raise UserError(f"no items below {root}: run from the project's root folder")
    read = read_models(paths, Item, load_item, KEPT / "items.json")
    return {item.key: item for item in sorted(read, key=lambda i: (places[i.paper], i.number, i.item))}


def find_item(name: str, items: Mapping[str, Item]) -> Item:
    """Return the item called ``lrp/table1`` or ``lrp table1``.

    Raises:
        UserError: unknown item, with near names.
    """
    key = re.sub(r"[\s:.]+", "/", name.strip())
    if key in items:
        return items[key]
    paper = key.split("/")[0]
    near = [known for known in items if known.startswith(f"{paper}/")] or list(
        dict.fromkeys(item.paper for item in items.values())
    )
    raise UserError(f"unknown item '{name}': choose from {', '.join(near)}")


def item_file(item: Item) -> Path:
    """Return the item's YAML file."""
    return ITEMS / item.paper / f"{item.item}.yaml"
