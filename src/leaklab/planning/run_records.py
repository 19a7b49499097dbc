"""Run records as far as commands and reports rely on them: what a colleague sent is checked before it is used.

``records/ledger.py`` checks the files that a record names. The other fields are checked here, in one place, so that
whoever reads them afterwards finds numbers, dates and names that can be printed.
"""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictStr

from leaklab.records.config import Model, parse
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.ledger import Ledger

LONGEST_NAME = 255
LONGEST_PATH = 4096
"""Bytes; Linux refuses to look for a file whose name or path is longer."""
LARGEST = 1e12
ADVICE = "the record is damaged: delete it and run snakemake again"


def _printable(text: str) -> str:
    # a terminal obeys control characters, and half a character cannot be written at all
    if not text.isprintable():
        raise ValueError("holds characters that cannot be printed")
    return text


def _file_name(text: str) -> str:
    name = _printable(text).encode()
    if len(name) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in name.split(b"/")):
        raise ValueError("is too long for the name of a file")
    return text


def _moment(text: str) -> str:
    # moments are compared as text and with each other, so all are in UTC
    if datetime.fromisoformat(text).utcoffset() is None:
        raise ValueError("is no moment with a time zone")
    return text


Printable = Annotated[StrictStr, AfterValidator(_printable)]
FileName = Annotated[StrictStr, AfterValidator(_file_name)]
Amount = Annotated[float, Field(ge=0, le=LARGEST, strict=True)]


class _Source(BaseModel):
    model_config = ConfigDict(extra="ignore")

    path: Printable
    sha256: Printable
    source: Printable


class _Facts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    sources: tuple[_Source, ...] = ()
    evaluations: Annotated[int, Field(ge=0, le=LARGEST, strict=True)] = 0


class _RunRecord(BaseModel):
    model_config = ConfigDict(extra="ignore")

    rule: Annotated[StrictStr, Field(pattern=r"^[a-z_]+$")]
    spec: dict[str, Any]
    code: Printable
    commit: Printable | None = None
    dirty: StrictBool | None = None
    device: Printable
    facts: _Facts
    inputs: dict[FileName, Printable]
    outputs: dict[FileName, Printable]
    started: Annotated[StrictStr, AfterValidator(_moment)]
    wall_seconds: Amount
    cpu_seconds: Amount
    peak_memory_mb: Amount


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore")

    inputs: dict[FileName, Printable]


class _Lacking(BaseModel):
    model_config = ConfigDict(extra="ignore")

    missing: dict[StrictStr, StrictStr] = {}


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore")

    spec: _Lacking


def checked_ledger(root: Path = Path()) -> Ledger:
    """Read every record of a checkout.

    Raises:
        UserError: a record is damaged; it is named.
    """
    ledger = Ledger.scan(root)
    for entry in ledger.entries:
        _parsed(_RunRecord, entry.content, entry.path)
    return ledger


def inputs_of(path: Path) -> dict[str, str]:
    """Return path -> checksum of what a record says was read.

    Raises:
        UserError: the record is missing or damaged.
    """
    return _parsed(_Read, read_json(path), path).inputs


def lacked_data(path: Path) -> dict[str, str]:
    """Return data set -> why it could not be had where a table was made, from the table's record.

    Raises:
        UserError: the record is missing or damaged.
    """
    return _parsed(_Table, read_json(path), path).spec.missing


def _parsed(model: type[Model], content: Any, path: Path) -> Model:
    try:
        return parse(model, content, path)
    except UserError as error:
        raise UserError(f"{error}: {ADVICE}") from None
