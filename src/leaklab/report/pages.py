"""What the site shows, as plain data: the step that builds the site fills these in, the templates read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leaklab.report.claims import Claim, Verdict
from leaklab.report.comparison import Comparison
from leaklab.report.layout import Grid
from leaklab.report.results import ADAPTIVE, AS_DESCRIBED, AS_PRINTED, ResultRow, ResultTable, RowKeys, identity

State = Literal["done", "not run", "planned"]
MEDIAN = "_median"


@dataclass(frozen=True)
class Picture:
    """A figure beside a page; the file is copied next to it.

    Attributes:
        path: the PNG.
        alt: what is to be seen, for readers who cannot see it.
        caption: shown below.
        pdf: the same figure as PDF, offered for download.
    """

    path: Path
    alt: str
    caption: str = ""
    pdf: Path | None = None


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict at this scale."""

    claim: Claim
    verdict: Verdict


@dataclass(frozen=True)
class AttackerPair:
    """One number under the attacker of the paper and under the adaptive one.

    Attributes:
        row: what the number belongs to.
        metric: what was measured.
        unit: of both numbers.
        better: direction in which privacy improves; empty if unknown.
        as_printed: value under the attacker that the paper used.
        adaptive: value under the worst case over the defense-aware transforms; None where none fits the defense.
        transform: that worst case; empty where there is none.
    """

    row: RowKeys
    metric: str
    unit: str
    better: str
    as_printed: float | None
    adaptive: float | None
    transform: str = ""

    @property
    def leaks_more(self) -> bool | None:
        """Whether the adaptive attacker sees more; None where that cannot be said."""
        if self.as_printed is None or self.adaptive is None or not self.better:
            return None
        return self.adaptive < self.as_printed if self.better == "higher" else self.adaptive > self.as_printed


@dataclass(frozen=True)
class MetricCard:
    """How a metric is computed: domain, peak, clamping, network and input range, assignment, averaging."""

    metric: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Cost:
    """What it took to make an item, summed over its run records and benchmark files.

    Attributes:
        jobs: number of runs.
        wall_seconds: of all jobs, one after another.
        cpu_seconds: of all jobs; None where not measured.
        peak_memory_mib: of the largest job; None where not measured.
        devices: devices used, e.g. ``cpu``.
    """

    jobs: int
    wall_seconds: float
    cpu_seconds: float | None = None
    peak_memory_mib: float | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProvenanceLink:
    """One link of the chain from the figure back to the data.

    Attributes:
        stage: ``figure``, ``table``, ``scores``, ``attack``, ``capture``, ``train``, ``check``, ``partition`` or
            ``dataset``.
        name: file or run slug, relative to the repository.
        run: run id; empty for a dataset.
        commit: git commit of the code that made it; empty for a dataset.
        dirty: whether the checkout had uncommitted changes.
        sha256: of the file.
        others: number of further runs of the same stage behind this item.
    """

    stage: str
    name: str
    run: str = ""
    commit: str = ""
    dirty: bool = False
    sha256: str = ""
    others: int = 0


@dataclass(frozen=True)
class Download:
    """A file offered beside a page: the result table as csv, Markdown or LaTeX."""

    label: str
    path: Path


@dataclass(frozen=True)
class ItemPage:
    """One of the papers' tables, figures, theorems and algorithms.

    Only the first five fields are needed; a part whose field is empty is left out of the page.

    Attributes:
        paper: key of the paper.
        item: key of the item.
        title: from the item's YAML.
        state: ``done``, ``not run`` (at this scale) or ``planned``.
        reason: why it is not done, one sentence; empty when done.
        pictures: regenerated figures, the main one first; where there is a grid, the first is the same table drawn,
            and the page folds it away.
        grid: the regenerated table with the printed numbers (``layout.lay_out``).
        comparisons: this item's rows of the comparison.
        claims: this item's claims with their verdicts.
        attackers: both attackers side by side (``attacker_pairs``).
        reading: one plain sentence on what it means, from the item's YAML.
        settings: resolved settings by scale, ``{"paper": {...}, "small": {...}, "demo": {...}}``; nested mappings
            are flattened.
        substitutes: stand-ins behind its numbers.
        gaps: what the numbers lack: not run here, diverged, target not reached (``gaps.gaps``).
        partitions: who holds what in the deals behind its runs.
        cards: metric cards of its metrics.
        cost: what it took.
        provenance: the chain, figure first, dataset last.
        downloads: files to take away.
    """

    paper: str
    item: str
    title: str
    state: State
    reason: str = ""
    pictures: tuple[Picture, ...] = ()
    pictures_first: bool = False
    grid: Grid | None = None
    comparisons: tuple[Comparison, ...] = ()
    claims: tuple[JudgedClaim, ...] = ()
    attackers: tuple[AttackerPair, ...] = ()
    reading: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    substitutes: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    partitions: tuple[Picture, ...] = ()
    cards: tuple[MetricCard, ...] = ()
    cost: Cost | None = None
    provenance: tuple[ProvenanceLink, ...] = ()
    downloads: tuple[Download, ...] = ()

    @property
    def name(self) -> str:
        """Name of the page's file without suffix, e.g. ``lrp-table1``."""
        return f"{self.paper}-{self.item}"


@dataclass(frozen=True)
class PaperPages:
    """A paper with its items, in the paper's order.

    Attributes:
        key: e.g. ``lrp``.
        title: of the paper.
        items: all its items, whatever their state.
        citation: authors and year; may be empty.
    """

    key: str
    title: str
    items: tuple[ItemPage, ...]
    citation: str = ""


@dataclass(frozen=True)
class SiteData:
    """Everything that the site shows.

    Attributes:
        scale: ``demo``, ``small`` or ``paper``.
        scale_note: one sentence on what this scale is.
        papers: the papers with their items.
        version: of leaklab.
        commit: git commit of the checkout that built the site; may be empty.
        dirty: whether it had uncommitted changes.
    """

    scale: str
    scale_note: str
    papers: tuple[PaperPages, ...]
    version: str
    commit: str = ""
    dirty: bool = False


def attacker_pairs(results: ResultTable) -> tuple[AttackerPair, ...]:
    """Pair an item's rows of both attackers by row and metric.

    Where the table has medians (metrics that end in ``_median``), only they are paired. Rows without an adaptive
    partner, such as those without defense, stay in as reference. No adaptive row at all: no pair.
    """
    own = [row for row in results.select(variant=AS_DESCRIBED).rows if "selection" not in row.row]
    own = [row for row in own if row.metric.endswith(MEDIAN)] or own
    adaptive = {_pair_key(row): row for row in own if row.attacker == ADAPTIVE}
    if not adaptive:
        return ()
    return tuple(_pair(row, adaptive.get(_pair_key(row))) for row in own if row.attacker == AS_PRINTED)


def _pair_key(row: ResultRow) -> tuple[str, str]:
    return identity({key: value for key, value in row.row.items() if key != "transform"}), row.metric


def _pair(printed: ResultRow, adaptive: ResultRow | None) -> AttackerPair:
    return AttackerPair(
        row=printed.row,
        metric=printed.metric,
        unit=printed.unit,
        better=printed.better,
        as_printed=printed.value,
        adaptive=adaptive.value if adaptive else None,
        transform=str(adaptive.row.get("transform", "")) if adaptive else "",
    )
