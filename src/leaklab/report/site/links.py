"""The chain of provenance of a page: figure, table, scores, attack or training, partition, data."""

from leaklab.records.ledger import Entry, Ledger
from leaklab.report.site.pages import ProvenanceLink

STAGES = {
    "make_figure": "figure",
    "make_table": "table",
    "score_attack": "scores",
    "map_landscape": "landscape",
    "score_text": "scores",
    "run_attack": "attack",
    "attack_text": "attack",
    "learn_law": "law",
    "project_image": "projection",
    "capture_updates": "capture",
    "train_generator": "generator",
    "capture_text": "capture",
    "train_federated": "train",
    "check_theory": "check",
    "partition_data": "partition",
    "fetch_dataset": "dataset",
    "fetch_text": "dataset",
}


def chain_of(ledger: Ledger, path: str) -> tuple[ProvenanceLink, ...]:
    """Return one link per stage, figure first, raw data last; ``others`` counts the runs that are not shown."""
    entries = ledger.behind(path).entries
    links: list[ProvenanceLink] = []
    for rule, stage in STAGES.items():
        of_stage = [entry for entry in entries if entry.rule == rule]
        if of_stage:
            links.append(_link(stage, of_stage[0], len(of_stage) - 1))
    sources = [source for entry in entries if STAGES.get(entry.rule) == "dataset" for source in _sources(entry)]
    raw = {source["path"]: source["sha256"] for source in sources}
    links += [ProvenanceLink("dataset", f"raw file {name}", sha256=digest) for name, digest in sorted(raw.items())]
    return tuple(links)


def _link(stage: str, entry: Entry, others: int) -> ProvenanceLink:
    name, digest = next(iter(entry.outputs.items()))
    return ProvenanceLink(
        stage=stage,
        name=name,
        run=entry.path.parent.name if "runs" in entry.path.parts else "",
        commit=entry.content.get("commit") or "",
        dirty=bool(entry.content.get("dirty")),
        sha256=digest,
        others=others,
    )


def _sources(entry: Entry) -> list[dict[str, str]]:
    return list(entry.content["facts"].get("sources", []))
