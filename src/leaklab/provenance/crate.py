"""A Workflow Run RO-Crate (process runs within a workflow) written from the run records.

One ``CreateAction`` per record and one for the whole workflow, one ``File`` with its SHA-256 per recorded file.
Source: https://www.researchobject.org/workflow-run-crate/ (Workflow Run Crate 0.5, RO-Crate 1.1).
"""

import mimetypes
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.ledger import Entry, Ledger

CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
PROFILES = (
    "https://w3id.org/ro/wfrun/process/0.5",
    "https://w3id.org/ro/wfrun/workflow/0.5",
)
LANGUAGE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
WORKFLOW = "workflow/Snakefile"
Entity = dict[str, Any]


def crate(ledger: Ledger, page: str) -> Entity:
    """Return the metadata document of everything that ``page`` (a scale's report) rests on.

    Raises:
        UserError: no record names the page.
    """
    entries = list(ledger.behind(page).entries)
    if not entries:
        raise UserError(f"{page}: no record says how it was made: delete it and run snakemake again")
    hashes = {path: value for entry in entries for path, value in {**entry.inputs, **entry.outputs}.items()}
    files = [_file(path, value) for path, value in sorted(hashes.items())]
    actions = [_whole(entries, page), *(_action(entry) for entry in entries)]
    rules = sorted({entry.rule for entry in entries})
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": "leaklab results",
        "description": "Regenerated tables, figures and verdicts, with the runs that they rest on",
        "license": "https://spdx.org/licenses/Apache-2.0",
        "datePublished": max(_ended(entry) for entry in entries),
        "conformsTo": [{"@id": profile} for profile in PROFILES],
        "mainEntity": {"@id": WORKFLOW},
        "hasPart": [{"@id": WORKFLOW}, *({"@id": file["@id"]} for file in files)],
        "mentions": [{"@id": action["@id"]} for action in actions],
    }
    return {
        "@context": CONTEXT,
        "@graph": [
            {
                "@id": "ro-crate-metadata.json",
                "@type": "CreativeWork",
                "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
                "about": {"@id": "./"},
            },
            root,
            *({"@id": profile, "@type": "CreativeWork", "name": profile.split("/")[-2]} for profile in PROFILES),
            _workflow(rules),
            {"@id": LANGUAGE, "@type": "ComputerLanguage", "name": "Snakemake", "url": "https://snakemake.github.io"},
            *(_tool(rule) for rule in rules),
            *actions,
            *files,
        ],
    }


def _file(path: str, value: str) -> Entity:
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return {"@id": path, "@type": "File", "name": path, "sha256": value, "encodingFormat": kind}


def _workflow(rules: list[str]) -> Entity:
    return {
        "@id": WORKFLOW,
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        "name": "leaklab",
        "programmingLanguage": {"@id": LANGUAGE},
        "hasPart": [{"@id": f"#{rule}"} for rule in rules],
    }


def _tool(rule: str) -> Entity:
    return {"@id": f"#{rule}", "@type": "SoftwareApplication", "name": rule}


def _whole(entries: list[Entry], page: str) -> Entity:
    """Describe the run of the workflow: from the files that no step made to the page."""
    made = {path for entry in entries for path in entry.outputs}
    needed = {path for entry in entries for path in entry.inputs} - made
    return {
        "@id": "#workflow-run",
        "@type": "CreateAction",
        "name": f"{WORKFLOW} -> {page}",
        "instrument": {"@id": WORKFLOW},
        "object": [{"@id": path} for path in sorted(needed)],
        "result": [{"@id": page}],
        "startTime": min(entry.content["started"] for entry in entries),
        "endTime": max(_ended(entry) for entry in entries),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }


def _action(entry: Entry) -> Entity:
    return {
        "@id": f"#run:{entry.path}",
        "@type": "CreateAction",
        "name": f"{entry.rule} -> {next(iter(entry.outputs), entry.path)}",
        "instrument": {"@id": f"#{entry.rule}"},
        "object": [{"@id": path} for path in _order(entry.inputs)],
        "result": [{"@id": path} for path in _order(entry.outputs)],
        "startTime": entry.content["started"],
        "endTime": _ended(entry),
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "description": f"commit {entry.content.get('commit')}, code {entry.content['code']}",
    }


def _ended(entry: Entry) -> str:
    started = datetime.fromisoformat(entry.content["started"])
    return (started + timedelta(seconds=entry.content["wall_seconds"])).isoformat(timespec="seconds")


def _order(files: dict[str, str]) -> Iterator[str]:
    yield from sorted(files)
