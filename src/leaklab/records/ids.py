"""Run ids: a readable slug and a hash of the spec's canonical JSON.

Two items that ask for the same run share it; a changed number is a new run and never overwrites the old one.
"""

import hashlib
from pathlib import Path

from leaklab.records.canonical import canonical_json
from leaklab.records.specs import Spec

RUNS = Path("results/runs")
HASH_LENGTH = 8


def run_id(spec: Spec) -> str:
    """Return ``<slug>-<hash8>``."""
    digest = hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:HASH_LENGTH]
    return f"{spec.slug()}-{digest}"


def run_folder(spec: Spec) -> Path:
    """Return the run's folder, relative to the project root."""
    return RUNS / spec.stage / run_id(spec)
