"""Fill the site's pages: one ``ItemPage`` per item from its results, its verdicts and the records behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leaklab.items.items import Item, Paper
from leaklab.metrics.silence import NO_INFORMATION_CARD
from leaklab.observations.letters import without_attacker
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.outputs import idle_defenses, state_of
from leaklab.planning.plan import Plan, result_files
from leaklab.records.config import SCALES, Scale
from leaklab.records.files import read_json
from leaklab.records.ledger import Ledger
from leaklab.records.recorder import git_state
from leaklab.report.judge.attackers import attacker_pairs, contested
from leaklab.report.judge.claims import Claim, read_claims
from leaklab.report.judge.comparison import Comparison, read_comparison
from leaklab.report.judge.verdicts import Judgement, Verdict
from leaklab.report.numbers.reading import read_table
from leaklab.report.numbers.results import PROTECTION_LEFT, ResultTable
from leaklab.report.numbers.words import gaps
from leaklab.report.site import scoreboard, threat_letters
from leaklab.report.site.answers import Answer, answer
from leaklab.report.site.attacks_tried import bounds_of, protection_left, tried_attacks, unbroken
from leaklab.report.site.drawings import partition_pictures, ranges
from leaklab.report.site.findings import (
    Corrected,
    Sentence,
    corrected,
    load_changes,
    load_findings,
    sentence_of,
)
from leaklab.report.site.headlines import ON_STAND_INS, load_headlines, read_grants
from leaklab.report.site.links import chain_of
from leaklab.report.site.pages import (
    Download,
    ItemPage,
    JudgedClaim,
    PaperPages,
    Picture,
    SiteData,
)
from leaklab.report.site.publication import Published
from leaklab.report.site.questions import Asked
from leaklab.report.site.recipes import absent_records, recipe_of
from leaklab.report.tables.layout import lay_out

NOT_PAIRED = (PROTECTION_LEFT, NO_INFORMATION_CARD.name)
"""Metrics whose rows are no numbers of an attack."""
GENERAL_NOTES = {
    "demo": "Embedded data, a few minutes on a laptop: the whole chain on real input, not the papers' numbers.",
    "small": "The real data sets and the papers' models; fewer rounds, images or restarts where a page says so.",
    "paper": "Everything as printed.",
}


@dataclass(frozen=True)
class Evidence:
    """What all pages of a scale share."""

    scale: Scale
    plan: Plan
    ledger: Ledger
    asked: Asked
    comparisons: tuple[Comparison, ...]
    claims: tuple[JudgedClaim, ...]
    drawings: Path
    published: Published = field(default_factory=lambda: Published({}, {}))
    findings: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """Files of a scale that the site is filled from, and the papers in their order."""

    comparison: Path
    verdicts: Path
    claims: Path
    papers: Mapping[str, Paper]


def gather(
    scale: Scale, items: Mapping[str, Item], sources: Sources, drawings: Path, plan: Plan | None = None
) -> SiteData:
    """Read everything that the site of a scale shows.

    Args:
        scale: of the results; what was published of its runs is read from ``results/<scale>``.
        items: all items.
        sources: what was judged before.
        drawings: folder for figures that only the pages show (ranges over draws).
        plan: of the items at the scale, where it is known.

    Raises:
        UserError: a result, record or configuration file is missing or damaged.
    """
    evidence = _evidence(plan or KnownPlan.of(known_plan(items, (scale,))), scale, sources, drawings)
    headlines, grants = load_headlines(), read_grants(Path("results", scale, threat_letters.FILE))
    answers = {
        key: answer(key, own, evidence.asked.about(key, (line.item for line in own.lines)), grants)
        for key, own in headlines.items()
    }
    if scale == "demo":
        answers = {key: replace(own, sentence=f"{ON_STAND_INS}{own.sentence}") for key, own in answers.items() if own}
    return SiteData(
        scale=scale,
        scale_note=GENERAL_NOTES[scale],
        papers=tuple(
            PaperPages(
                key=key,
                title=paper.title,
                citation=paper.citation,
                items=tuple(_page(evidence, item) for item in items.values() if item.paper == key),
                answer=answers.get(key),
            )
            for key, paper in sources.papers.items()
        ),
        version=version("leaklab"),
        corrections=() if scale == "demo" else _corrections(evidence, answers),
        scoreboard=tuple(scoreboard.standings()),
        **{name: value for name, value in git_state().items() if value is not None},
    )


def _corrections(evidence: Evidence, answers: Mapping[str, Answer | None]) -> tuple[Corrected, ...]:
    words = {judged.claim.id: judged.verdict.verdict for judged in evidence.claims}
    return corrected(load_changes(), words, {a: b.sentence for a, b in answers.items() if b}, evidence.asked)


def _evidence(plan: Plan, scale: Scale, sources: Sources, drawings: Path) -> Evidence:
    done = [item for item in plan.items.values() if state_of(plan, item, scale).word == "done"]
    tables = (read_table(result_files(item, scale)["csv"]) for item in done)
    asked = Asked(ResultTable(tuple(row for table in tables for row in table.rows)))
    verdicts = {verdict["id"]: Verdict.from_json(verdict) for verdict in read_json(sources.verdicts)}
    claims = tuple(JudgedClaim(c, verdicts.get(c.id) or _unjudged(c.id)) for c in read_claims(sources.claims))
    published = Published.load(Path("results", scale))
    comparisons = read_comparison(sources.comparison)
    found = {} if scale == "demo" else _findings(asked)  # stand-in data decide nothing
    return Evidence(scale, plan, Ledger.scan(), asked, comparisons, claims, drawings, published, found)


def _findings(asked: Asked) -> dict[str, tuple[Sentence, ...]]:
    """Return what came out, by item; sentences that cannot be written have no text."""
    found: dict[str, tuple[Sentence, ...]] = {}
    for paper, items in load_findings().items():
        for item, findings in items.items():
            found[f"{paper}/{item}"] = tuple(sentence_of(finding, asked.of(paper)) for finding in findings)
    return found


def _unjudged(claim: str) -> Verdict:
    reason = "not judged yet: the claim is newer than the verdicts in this checkout"
    return Verdict(claim, Judgement("not run", sentence=reason, reason=reason))


def _page(evidence: Evidence, item: Item) -> ItemPage:
    state = state_of(evidence.plan, item, evidence.scale)
    claims = tuple(judged for judged in evidence.claims if _shown_with(item, judged.claim))
    facts: dict[str, Any] = {"title": item.title, "state": state.word, "reason": state.reason, "claims": claims}
    if (evidence.scale, item.key) in evidence.plan.runs:
        facts["recipe"] = recipe_of(item, evidence.scale, evidence.plan.jobs_of(evidence.scale, item))
    if state.word == "done":
        facts |= _results(evidence, item)
    return ItemPage(paper=item.paper, item=item.item, settings=_settings(item), **facts)


def _shown_with(item: Item, claim: Claim) -> bool:
    return claim.id in item.claims or (claim.paper, claim.item) == (item.paper, item.item)


def _results(evidence: Evidence, item: Item) -> dict[str, Any]:
    results = evidence.asked.by_item.get((item.paper, item.item), ResultTable())
    comparisons = tuple(c for c in evidence.comparisons if (c.paper, c.item) == (item.paper, item.item))
    files = result_files(item, evidence.scale)
    jobs, runs = evidence.plan.jobs_of(evidence.scale, item), evidence.plan.runs[evidence.scale, item.key]
    several, protection = contested(results), protection_left(results)
    tried = tried_attacks(results, item.headline, several)
    paired = ResultTable(tuple(row for row in results.rows if row.metric not in NOT_PAIRED))
    picture = Picture(files["png"], alt=f"{item.title}: {item.shows}", caption=item.shows, pdf=files["pdf"])
    return {
        "pictures_first": item.kind == "figure" or item.renderer in ("curves", "paths", "scatter", "sentences"),
        "pictures": (picture, *ranges(evidence.drawings, item, comparisons)),
        "grid": threat_letters.with_letters(lay_out(item.table, results, comparisons), runs, evidence.plan.add)
        if item.table
        else None,
        "comparisons": comparisons,
        "attackers": attacker_pairs(paired, several),
        "threats": threat_letters.threat_models(runs),
        "idle": tuple(idle_defenses(jobs)),
        "strangers": without_attacker(run.tried for run in runs if run.tried),
        "tried": tried,
        "protection": protection,
        "unbroken": unbroken(protection, tried, bounds_of(item, runs) if protection else {}),
        "headline": item.headline,
        "findings": evidence.findings.get(item.key, ()),
        "reading": item.reading,
        "substitutes": results.substitutes(),
        "gaps": gaps(results),
        "partitions": partition_pictures(evidence.scale, jobs),
        "absent_records": absent_records(evidence.plan, evidence.scale, [item]),
        "cards": evidence.published.cards.get(item.key, ()),
        "cost": evidence.published.costs.get(item.key),
        "provenance": chain_of(evidence.ledger, str(files["png"])),
        "downloads": tuple(Download(files[name].name, files[name]) for name in ("csv", "markdown", "latex")),
    }


def _settings(item: Item) -> dict[str, dict[str, Any]]:
    """Return each scale's settings: the blocks as in the item's file, with the scale's changes applied."""
    if not item.runs:
        return {}
    return {scale: _resolved(item, scale) for scale in reversed(SCALES) if scale in item.scales}


def _resolved(item: Item, scale: Scale) -> dict[str, Any]:
    change = item.scales[scale]
    shown: dict[str, Any] = {}
    for name, block in item.runs.items():
        if name in change.absent:
            shown[name] = {"not run": change.absent[name]}
        elif name not in change.drop:
            own = _plain(block)
            # a block that is like another shows only what it states itself
            common = {p: v for p, v in change.set.items() if "like" not in block or any(_within(key, p) for key in own)}
            shown[name] = _replaced(_replaced(own, common), change.blocks.get(name, {}))
    return {"why": change.note, **shown}


def _replaced(shown: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat block with each field that a change names replaced as a whole; overrides merge, unless by none."""
    replacing = [path for path, value in changes.items() if path != "overrides" or not value]
    kept = {key: value for key, value in shown.items() if not any(_within(key, path) for path in replacing)}
    return {**kept, **_plain(changes)}


def _within(key: str, path: str) -> bool:
    """Return whether a key of a flat block belongs to the field at ``path``."""
    rules = {"overrides": key.startswith("if "), "skip": key == "left out"}
    return key == path or key.startswith(f"{path}.") or rules.get(path, False)


def _plain(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block flattened to dotted keys, so that a scale's changes replace the field that they name."""
    flat: dict[str, Any] = {}
    for key, value in block.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": content for inner, content in _plain(value).items()}
        elif key == "overrides":
            flat |= {f"if {_words(rule['when'])}": _words(rule["set"]) for rule in value}
        elif key == "skip":
            flat["left out"] = "; ".join(_words(rule) for rule in value)
        else:
            flat[key] = [_word(part) for part in value] if isinstance(value, list) else value
    return flat


def _word(value: Any) -> Any:
    """Return a component with settings as ``dlg (matched 1e-08)``; other values as they are."""
    if not isinstance(value, dict):
        return value
    settings = _words({key: inner for key, inner in value.items() if key != "name"})
    return f"{value['name']} ({settings})" if "name" in value else settings


def _words(fields: Mapping[str, Any]) -> str:
    """Return ``defense none, transform a or b``."""
    return ", ".join(f"{key} {' or '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in fields.items())
