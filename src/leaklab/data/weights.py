"""Pretrained weights: mirror first, then ``data/weights``, then the official source; never used unchecked."""

import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from leaklab.data.download import NotReceivedError, receive
from leaklab.records.config import CONFIG, load_config, parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.files import atomic, sha256
from leaklab.records.record import Record

REGISTRY = Path("config/weights.yaml")
LOCAL = Path("data/weights")
TIMEOUT_SECONDS = 20


class WeightsUnavailableError(UserError):
    """The weights are neither on this machine nor to be had from their source now."""


class WeightsFile(Record):
    """One file that holds the weights; without a ``url`` it is only looked for, never downloaded."""

    path: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    url: str | None = Field(default=None, pattern="^https://")


class Weights(Record):
    """A pretrained network and the files that hold it; any one of them is enough.

    Attributes:
        mean: of each channel of its inputs, on the [0, 1] scale.
        std: deviations, likewise; inputs are (x - mean) / std.
        renamed: part of a parameter's name in the file -> what stands there in ours.
    """

    title: str
    licence: str
    citation: str
    files: tuple[WeightsFile, ...] = Field(min_length=1)
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    renamed: dict[str, str] = Field(default_factory=dict)


def describe_weights(name: str) -> Weights:
    """Return the entry of ``config/weights.yaml``.

    Raises:
        UserError: there is no such entry.
    """
    entries = read_yaml(REGISTRY)
    if name not in entries:
        raise UserError(f"{REGISTRY} has no weights '{name}': choose from {', '.join(sorted(entries))}")
    return parse(Weights, entries[name], f"{REGISTRY}: {name}")


def weights_path(name: str) -> Path:
    """Return a file with the weights called ``name``, checked by its SHA-256.

    Raises:
        WeightsUnavailableError: no copy is at hand and none can be downloaded now.
        UserError: a copy is damaged, or the name is unknown.
    """
    files = describe_weights(name).files
    found = _first_copy(files)
    return found if found is not None else _download(name, files)


def why_unavailable(name: str) -> str | None:
    """Return why the weights called ``name`` cannot be had, or None; fetches them if need be.

    Raises:
        UserError: a copy is damaged, or the name is unknown.
    """
    try:
        weights_path(name)
    except WeightsUnavailableError as error:
        return str(error)
    return None


def _first_copy(files: Iterable[WeightsFile]) -> Path | None:
    for file in files:
        for folder in _folders():
            path = folder / file.path
            if path.is_file():
                _check(path, file, path)
                return path
    return None


def _folders() -> list[Path]:
    mirror = os.environ.get("LEAKLAB_MIRROR") or (load_config().mirror if CONFIG.exists() else None)
    return [Path(mirror) / "weights", LOCAL] if mirror else [LOCAL]


def _check(path: Path, file: WeightsFile, shown: Path | str) -> None:
    found = sha256(path)
    if found != file.sha256:
        raise UserError(
            f"{shown} is damaged (sha256 {found[:12]}..., not {file.sha256[:12]}...): delete it and run again"
        )


def _download(name: str, files: Iterable[WeightsFile]) -> Path:
    for file in files:
        if file.url is not None:
            return _fetch(file, file.url)
    wanted = " or ".join(file.path for file in files)
    raise WeightsUnavailableError(f"weights '{name}' are not at hand: put {wanted} into {LOCAL}/ or set LEAKLAB_MIRROR")


def _fetch(file: WeightsFile, url: str) -> Path:
    target = LOCAL / file.path
    try:
        with atomic(target) as temporary:
            with temporary.open("wb") as handle:
                handle.writelines(receive(url, TIMEOUT_SECONDS))
            _check(temporary, file, url)
    except NotReceivedError as reason:
        raise WeightsUnavailableError(
            f"{url} cannot be downloaded ({reason}): put it into {LOCAL}/ by hand or set LEAKLAB_MIRROR"
        ) from None
    return target
