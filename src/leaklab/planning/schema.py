"""JSON schemas of our YAML files, so that editors complete and check them, and of cards; written from the models."""

import json
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from leaklab.guests.schema import CardData
from leaklab.guests.scoreboard import Entry
from leaklab.items.items import Item, Paper
from leaklab.probing.schema import ProbeData
from leaklab.records.config import Config
from leaklab.records.errors import UserError
from leaklab.records.files import write_text
from leaklab.specs.stages import SPECS

# a block of an item is flat and has axes; the values that its fields may have are those of the specs
SCHEMAS: dict[str, Any] = {
    "card": CardData,
    "config": Config,
    "entry": Entry,
    "item": Item,
    "paper": Paper,
    "probe": ProbeData,
    "specs": reduce(or_, SPECS),
}
FOLDER, WORKFLOW = Path("workflow/schemas"), Path("workflow/Snakefile")


def schema_texts() -> dict[Path, str]:
    """Return schema file -> its text."""
    return {
        FOLDER / f"{name}.schema.json": json.dumps(TypeAdapter(model).json_schema(), indent=1, sort_keys=True) + "\n"
        for name, model in SCHEMAS.items()
    }


def write_schemas() -> list[Path]:
    """Write all schema files.

    Raises:
        UserError: this is no project's root.
    """
    if not WORKFLOW.is_file():
        raise UserError(f"no {WORKFLOW} here: run from the project's root folder")
    for path, text in schema_texts().items():
        write_text(path, text)
    return list(schema_texts())
