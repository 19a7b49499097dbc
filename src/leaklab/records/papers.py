"""Papers: each is a folder, ``config/items/<paper>/``, in which ``paper.yaml`` says what it is."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record

ITEMS = Path("config/items")
FILE = "paper.yaml"
KEY = r"^[a-z0-9]+(-[a-z0-9]+)*$"
# folders of a scale's own beside those of the papers
TAKEN = ("report", "provenance")


class Paper(Record):
    """A paper whose tables and figures are items.

    Attributes:
        order: place among the papers, in lists and in the report; papers with the same one follow their keys.
    """

    title: str = Field(min_length=1)
    citation: str = Field(min_length=1, description="authors, and the paper's short name")
    order: int = Field(ge=1, description="place among the papers")


@cache
def load_papers(root: Path = ITEMS) -> Mapping[str, Paper]:
    """Return key -> paper, in order.

    Raises:
        UserError: a folder has no ``paper.yaml``, a wrong one, or a name that no paper can have.
    """
    folders = sorted(path for path in root.glob("*/") if any(path.glob("*.yaml")))
    papers = {folder.name: _load(folder) for folder in folders}
    return dict(sorted(papers.items(), key=lambda pair: (pair[1].order, pair[0])))


def paper_file(key: str, root: Path = ITEMS) -> Path:
    """Return the paper's YAML file."""
    return root / key / FILE


def _load(folder: Path) -> Paper:
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{path} is missing: it says what the paper is, with the keys title, citation and order")
    if folder.name in TAKEN:
        raise UserError(f"{path}: no paper can be called '{folder.name}', a folder of every scale: rename {folder}")
    return parse(Paper, read_yaml(path), path)
