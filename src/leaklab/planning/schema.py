"""JSON schemas of our YAML files, written from the models, so that editors complete and check them."""

import json
from pathlib import Path

from pydantic import BaseModel

from leaklab.records.config import Config
from leaklab.records.files import write_text
from leaklab.records.items import Item
from leaklab.records.papers import Paper

SCHEMAS: dict[str, type[BaseModel]] = {"config": Config, "item": Item, "paper": Paper}
FOLDER = Path("workflow/schemas")


def schema_texts() -> dict[Path, str]:
    """Return schema file -> its text."""
    return {
        FOLDER / f"{name}.schema.json": json.dumps(model.model_json_schema(), indent=1, sort_keys=True) + "\n"
        for name, model in SCHEMAS.items()
    }


def write_schemas() -> list[Path]:
    """Write all schema files."""
    for path, text in schema_texts().items():
        write_text(path, text)
    return list(schema_texts())
