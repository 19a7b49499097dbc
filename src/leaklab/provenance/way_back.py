"""What an audit says last where it fails because of an edit here: the way back to one that passes."""

from leaklab.provenance.audit import UNCOMMITTED, Audit
from leaklab.records import git
from leaklab.records.errors import UserError
from leaklab.records.recorder import CODE_PATHS

SHOWN = 3
"""Edited files that are named; of more, how many there are."""


def way_back(found: Audit) -> str:
    """Return a sentence with the commands; empty where nothing was edited here, or made while it was."""
    edited, made = _edited(), [line.partition(":")[0] for line in found.stale if line.endswith(UNCOMMITTED)]
    if not (found.breaks or found.stale) or not (edited or made):
        return ""
    steps = []
    if edited:
        folders = " ".join(sorted({name.partition("/")[0] for name in edited}))
        steps.append(
            f"undo what is edited here ({_listed(edited)}): `git stash --include-untracked -- {folders}` puts it aside"
        )
    if made:
        steps.append(
            f"take away what was made meanwhile ({_listed(made)}): `git checkout -- results figures`, `make clean`, "
            "and the folders of those runs; snakemake makes anew what is asked for"
        )
    return f"back to an audit that passes: {'; then '.join(steps)}"


def _edited() -> list[str]:
    """Return the files of code and configuration that differ from the commit, or are new."""
    try:
        found = git.asked("status", "--porcelain", "--no-renames", "-z", "--untracked-files=all", "--", *CODE_PATHS)
    except UserError:
        return []
    return [line[3:].decode(errors="replace") for line in found.split(b"\0") if line]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if names[SHOWN:] else ""
    return f"{', '.join(names[:SHOWN])}{more}"
