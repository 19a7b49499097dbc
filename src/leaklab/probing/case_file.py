"""A case in a file: plain Python of the owner's, which defines a client and its samples by name.

``client``, ``inputs`` and ``targets``, and where they are at hand ``update`` (what was really sent), ``public`` (inputs
and targets of others), ``others`` (states of other rounds by name) and ``tokenizer``. The file is run as it is: it is
the owner's own training, on the owner's machine.
"""

import runpy
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.client import Client
from leaklab.records.errors import UserError

NAMES = ("client", "inputs", "targets", "update", "public", "others", "tokenizer")


@dataclass(frozen=True)
class CaseFile:
    """What a case file defines.

    Attributes:
        client: how its owner describes it.
        inputs: private samples, [N, ...]; None where nobody holds them.
        targets: what the loss compares with; None where nobody holds them.
        update: what was really sent, by name; None to run the client.
        public: inputs and targets of others; None for none.
        others: states of the model in other rounds, by what they are called.
        tokenizer: with ``decode``, for sentences; None for none.
        name: of the file.
        sha256: of its bytes.
    """

    client: Client
    inputs: Tensor | None
    targets: Tensor | None
    update: Mapping[str, Tensor] | None = None
    public: tuple[Tensor, Tensor] | None = None
    others: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    tokenizer: Any = None
    name: str = ""
    sha256: str = ""


def read_case(path: Path) -> CaseFile:
    """Run a case file and return what it defines.

    Raises:
        UserError: there is no such file, it fails (with its line), or it defines no client.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file: name a Python file that defines client, inputs and targets")
    named = _run(path)
    client = named.get("client")
    if not isinstance(client, Client):
        what = "no 'client'" if client is None else f"a 'client' of type {type(client).__name__}"
        raise UserError(f"{path}: defines {what}: write client = leaklab.Client(model, ...)")
    inputs, targets = (_tensor(path, one, named.get(one)) for one in ("inputs", "targets"))
    if (inputs is None) != (targets is None):
        raise UserError(f"{path}: define both inputs and targets, or none of them")
    return CaseFile(
        client, inputs, targets, _mapping(path, "update", named.get("update")), _public(path, named.get("public")),
        _others(path, named.get("others")), named.get("tokenizer"), path.name, sha256(path.read_bytes()).hexdigest(),
    )  # fmt: skip


def _run(path: Path) -> dict[str, Any]:
    kept = list(sys.path)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        return runpy.run_path(str(path), run_name="leaklab_case")
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from None
    # it is the owner's program: whatever it raises is told with its line
    except Exception as error:  # noqa: BLE001
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise UserError(f"{path}{where}: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from None
    finally:
        sys.path[:] = kept


def _tensor(path: Path, name: str, value: Any) -> Tensor | None:
    if value is None or isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"{path}: '{name}' is {type(value).__name__}: make it a tensor [N, ...]") from None


def _mapping(path: Path, name: str, value: Any) -> Mapping[str, Tensor] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(one, Tensor) for one in value.values()):
        raise UserError(f"{path}: '{name}' is {type(value).__name__}: make it a dictionary of tensors by their names")
    return value


def _public(path: Path, value: Any) -> tuple[Tensor, Tensor] | None:
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise UserError(f"{path}: 'public' is {type(value).__name__}: write public = (inputs, targets) of other people")
    inputs, targets = (_tensor(path, "public", one) for one in value)
    if inputs is None or targets is None or len(inputs) != len(targets):
        raise UserError(f"{path}: 'public' needs as many targets as inputs")
    return inputs, targets


def _others(path: Path, value: Any) -> Mapping[str, Mapping[str, Tensor]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{path}: 'others' is {type(value).__name__}: make it a dictionary from names to states")
    return {str(name): _mapping(path, f"others[{name!r}]", state) or {} for name, state in value.items()}
