"""The text data sets: ``config/texts.yaml``, typed like ``config/datasets.yaml`` and as light."""

from pathlib import Path

from leaklab.data.catalog import Entry, load_catalog
from leaklab.records.errors import UserError

TEXTS = Path("config/texts.yaml")


def find_text(name: str, path: Path = TEXTS) -> Entry:
    """Return the text data set called ``name``.

    Raises:
        UserError: there is none, or the catalog is wrong.
    """
    known = load_catalog(path)
    if name not in known:
        raise UserError(f"unknown text data set '{name}': choose from {', '.join(known)}, or add it to {path}")
    return known[name]
