"""Tensors of an unfinished job, kept in one file so that a killed job goes on where it was.

The file holds a digest of them: what was altered on its way would make a result that looks like any other.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_tensors

IDENTITY, DIGEST = "identity", "digest"


def write_kept(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with their digest."""
    write_tensors(path, {**tensors, DIGEST: _digest(tensors)})


def read_kept(path: Path) -> dict[str, Tensor]:
    """Return the tensors of ``write_kept``.

    Raises:
        UserError: the file is missing or damaged.
    """
    # a copy begins where torch's own tensors begin: products round by where their factors lie in memory
    tensors = {name: tensor.clone() for name, tensor in read_tensors(path).items()}
    if not torch.equal(tensors.pop(DIGEST, torch.empty(0)), _digest(tensors)):
        raise UserError(f"{path} is damaged: delete it and run the same command again")
    return tensors


def _digest(tensors: Mapping[str, Tensor]) -> Tensor:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


class KeptTensors:
    """The file; what another job left there, or what is damaged, counts as nothing.

    Args:
        path: the file.
        identity: what the job was asked to do: its spec, its inputs' checksums, its code.
        seconds: least time between two savings by ``offer``.
    """

    def __init__(self, path: Path, identity: str, seconds: float = 0.0) -> None:
        self.path, self.seconds = path, seconds
        self._identity = torch.tensor(list(hashlib.sha256(identity.encode()).digest()), dtype=torch.uint8)
        self._saved = time.monotonic()

    def found(self) -> dict[str, Tensor]:
        """Return what was kept; empty where there is nothing that belongs to this job."""
        if not self.path.exists():
            return {}
        try:
            tensors = read_kept(self.path)
        except UserError:
            return {}  # a damaged file only costs time
        return tensors if torch.equal(tensors.pop(IDENTITY, torch.empty(0)), self._identity) else {}

    def keep(self, tensors: Mapping[str, Tensor]) -> None:
        """Write all of them in place of what was kept before."""
        write_kept(self.path, {**tensors, IDENTITY: self._identity})
        self._saved = time.monotonic()

    def offer(self, tensors: Callable[[], Mapping[str, Tensor]]) -> None:
        """Keep them if it is time; they are not even collected otherwise."""
        if time.monotonic() - self._saved >= self.seconds:
            self.keep(tensors())

    def remove(self) -> None:
        """Delete the file: the job is done."""
        self.path.unlink(missing_ok=True)


class KeptParts:
    """The finished parts of an unfinished job, by number, in one such file.

    Args:
        path: the file.
        identity: see ``KeptTensors``.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self._file = KeptTensors(path, identity)
        self._tensors = self._file.found()

    def part(self, number: int) -> dict[str, Tensor] | None:
        """Return a finished part, None where it is still to be done."""
        prefix = f"{number}/"
        found = {name.removeprefix(prefix): t for name, t in self._tensors.items() if name.startswith(prefix)}
        return found or None

    def keep(self, number: int, part: Mapping[str, Tensor]) -> None:
        """Add a finished part to the file."""
        self._tensors |= {f"{number}/{name}": value for name, value in part.items()}
        self._file.keep(self._tensors)

    def remove(self) -> None:
        """Delete the file: the job is done."""
        self._file.remove()
