"""What the site shows, as plain data: the step that builds the site fills these in, the templates read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from leaklab.guests.scoreboard import BoardLine
from leaklab.records.config import Scale
from leaklab.report.judge.attackers import MEDIAN, AttackerPair
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.comparison import Comparison
from leaklab.report.judge.verdicts import Verdict, VerdictName
from leaklab.report.site.answers import Answer
from leaklab.report.site.attacks_tried import ProtectionLeft, TriedAttack, Unbroken
from leaklab.report.site.findings import Corrected, Sentence
from leaklab.report.site.publication import Cost, MetricCard
from leaklab.report.site.recipes import Recipe
from leaklab.report.site.threat_letters import ThreatModel
from leaklab.report.tables.layout import Grid

State = Literal["done", "not run", "planned"]
Standing = Literal["stands", "falls", "not found", "open"]


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

    @property
    def standing(self) -> Standing | None:
        """What is left of a claim of protection; None for claims about attacks, utility or theory.

        ``stands`` against the paper's attacker and the strongest that was run, ``falls`` to the strongest, ``not
        found`` already against the paper's, ``open`` where nothing is decided against the strongest.
        """
        if self.claim.about != "protection":
            return None
        if self.verdict.verdict == "not reproduced":
            return "not found"
        if self.strongest == "not reproduced":
            return "falls"
        return "stands" if (self.verdict.verdict, self.strongest) == ("reproduced", "reproduced") else "open"

    @property
    def strongest(self) -> VerdictName:
        """The word under the strongest attacker that was run; the paper's where no other was."""
        return (self.verdict.knowing or self.verdict.judgement).verdict


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
        threats: what each attack has to know.
        tried: every attack that was tried, where there are several.
        protection: what each defended setting leaves of each attacker's result.
        unbroken: the settings of which no attack that was tried read much.
        reading: one plain sentence on what it means, from the item's YAML.
        settings: resolved settings by scale, ``{"paper": {...}, "small": {...}, "demo": {...}}``; nested mappings
            are flattened.
        substitutes: stand-ins behind its numbers.
        gaps: what the numbers lack: not run here, diverged, target not reached (``words.gaps``).
        partitions: who holds what in the deals behind its runs.
        cards: metric cards of its metrics.
        recipe: how to make it; None for an item that does not run at this scale.
        cost: what it took; None where it was not published.
        absent_records: number of runs and data sets behind it whose records are not in this checkout.
        provenance: the chain, figure first, dataset last.
        downloads: files to take away.
        headline: metric that stands for the item on its paper's page; empty for none.
        findings: what came out, one idea each; those that cannot be written have no text.
        idle: defenses that changed no update of a capture; known where the runs are in this checkout.
        strangers: defenses for which no attack that was tried on them was made (``observations/letters.py``).
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
    threats: tuple[ThreatModel, ...] = ()
    tried: tuple[TriedAttack, ...] = ()
    protection: tuple[ProtectionLeft, ...] = ()
    unbroken: tuple[Unbroken, ...] = ()
    reading: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    substitutes: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    partitions: tuple[Picture, ...] = ()
    cards: tuple[MetricCard, ...] = ()
    recipe: Recipe | None = None
    cost: Cost | None = None
    absent_records: int = 0
    provenance: tuple[ProvenanceLink, ...] = ()
    downloads: tuple[Download, ...] = ()
    headline: str = ""
    findings: tuple[Sentence, ...] = ()
    idle: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()

    @property
    def headline_pairs(self) -> tuple[AttackerPair, ...]:
        """The numbers of both attackers in the item's headline metric."""
        return tuple(pair for pair in self.attackers if pair.metric.removesuffix(MEDIAN) == self.headline)

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
        answer: what its defense hides, in one sentence and a few numbers; None where they are not there.
    """

    key: str
    title: str
    items: tuple[ItemPage, ...]
    citation: str = ""
    answer: Answer | None = None

    @property
    def name(self) -> str:
        """The paper's short name: its defense's, where one is known to be its own."""
        return (self.answer and self.answer.defense) or self.key.upper()

    @property
    def done(self) -> tuple[ItemPage, ...]:
        """The items whose results are here."""
        return tuple(page for page in self.items if page.state == "done")

    @property
    def claims(self) -> tuple[JudgedClaim, ...]:
        """The paper's claims, each once."""
        by_id = {judged.claim.id: judged for page in self.items for judged in page.claims}
        return tuple(by_id[key] for key in sorted(by_id))

    @cached_property
    def page_of_claim(self) -> Mapping[str, str]:
        """Claim id -> name of the first page that shows it."""
        pages: dict[str, str] = {}
        for page in self.items:
            for judged in page.claims:
                pages.setdefault(judged.claim.id, page.name)
        return pages


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
        corrections: published statements that were corrected.
        scoreboard: its lines; none where there are no entries.
    """

    scale: Scale
    scale_note: str
    papers: tuple[PaperPages, ...]
    version: str
    commit: str = ""
    dirty: bool = False
    corrections: tuple[Corrected, ...] = ()
    scoreboard: tuple[BoardLine, ...] = ()
