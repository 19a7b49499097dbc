"""Published weights of BigGAN-deep: read strictly, then folded to what evaluation needs.

The files (converted from the authors' release) store kernels before spectral normalisation, with the vectors u and v
of its power iteration, and running statistics measured at 51 truncations between 0 and 1. At a fixed truncation both
are constants: each kernel is divided by its norm u' W v, and each table of statistics is read at that truncation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor, nn

from leaklab.models.published import read_torch
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors

STATISTICS = 51
EMBEDDINGS = "embeddings"
SHOWN = 3

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Slot:
    """One tensor of the generator and the tensors of the file from which it is made.

    Attributes:
        own: its name in the generator.
        shape: its shape in the generator.
        kind: ``spectral`` for a normalised kernel, ``statistics`` for a running mean or variance, else ``plain``.
    """

    own: str
    shape: Sizes
    kind: str

    @property
    def published(self) -> str:
        """The name in the file, without the endings of its kind: only the embeddings lie outside ``generator``."""
        return self.own if self.own.startswith(EMBEDDINGS) else f"generator.{self.own}"

    def wanted(self) -> dict[str, Sizes]:
        """Return the names and shapes of the file's tensors."""
        name = self.published
        if self.kind == "spectral":
            return {f"{name}_orig": self.shape, f"{name}_u": self.shape[:1], f"{name}_v": (prod(self.shape[1:]),)}
        if self.kind == "statistics":
            return {f"{name}s": (STATISTICS, *self.shape)}
        return {name: self.shape}

    def folded(self, found: Mapping[str, Tensor], truncation: float) -> Tensor:
        """Return the generator's tensor, float32 (computed in float64: the same bytes however memory is aligned)."""
        values = [found[name].detach().double() for name in self.wanted()]
        if self.kind == "spectral":
            return normalised(*values).float()
        return (at_truncation(values[0], truncation) if self.kind == "statistics" else values[0]).float()


def normalised(kernel: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return ``kernel`` [rows, ...] divided by u' W v; W is the kernel as a matrix, u ``left`` and v ``right``."""
    return kernel / torch.dot(left, torch.mv(kernel.flatten(1), right))


def at_truncation(table: Tensor, truncation: float) -> Tensor:
    """Return statistics [C] at ``truncation``, linearly between the two nearest rows of ``table`` [S, C].

    Row s was measured at the truncation s / (S - 1).
    """
    position = truncation * (len(table) - 1)
    lower = min(int(position), len(table) - 2)
    return torch.lerp(table[lower], table[lower + 1], position - lower)


def slots(generator: nn.Module) -> Iterator[Slot]:
    """Yield every tensor of the generator; all convolutions and affine layers but the embeddings are normalised."""
    for layer_name, layer in generator.named_modules():
        spectral = isinstance(layer, nn.Conv2d | nn.Linear) and layer_name != EMBEDDINGS
        tensors = [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]
        for name, value in tensors:
            kind = "statistics" if name in ("running_mean", "running_var") else "plain"
            kind = "spectral" if spectral and name == "weight" else kind
            own = f"{layer_name}.{name}" if layer_name else name
            yield Slot(own, tuple(value.shape), kind)


def folded_state(generator: nn.Module, path: Path, truncation: float) -> dict[str, Tensor]:
    """Return the generator's state dict from a published file.

    Args:
        generator: gives names and shapes; may be on the meta device.
        path: ``.safetensors``, or any other ending for a torch file that holds tensors and nothing else.
        truncation: where the statistics are read, in (0, 1].

    Raises:
        UserError: the file is missing or damaged, or a tensor is missing, unexpected, misshapen or not finite.
    """
    found = _read(path)
    wanted = {name: shape for slot in slots(generator) for name, shape in slot.wanted().items()}
    problems = _problems(wanted, found)
    if problems:
        raise UserError(
            f"{path} is no BigGAN-deep of this layout: {'; '.join(problems)}: choose the file's own resolution, or "
            "fetch the published weights again"
        )
    state = {slot.own: slot.folded(found, truncation) for slot in slots(generator)}
    wild = [name for name, value in state.items() if not bool(value.isfinite().all())]
    if wild:
        raise UserError(f"{path} is damaged: {_listed(wild)} would not be finite: fetch the file again")
    return state


def _problems(wanted: Mapping[str, Sizes], found: Mapping[str, Tensor]) -> list[str]:
    problems = []
    if missing := wanted.keys() - found.keys():
        problems.append(f"missing {_listed(missing)}")
    if unexpected := found.keys() - wanted.keys():
        problems.append(f"unexpected {_listed(unexpected)}")
    misshapen = {
        f"{name} ({found[name].dtype} {list(found[name].shape)}, not {list(shape)})"
        for name, shape in wanted.items()
        if name in found and not (found[name].is_floating_point() and found[name].shape == shape)
    }
    if misshapen:
        problems.append(f"misshapen {_listed(misshapen)}")
    return problems


def _listed(names: set[str] | list[str]) -> str:
    shown = sorted(names)[:SHOWN]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return read_tensors(path)
    loaded = read_torch(path)  # the published format
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise UserError(f"{path} is no state dict of named tensors: fetch the published weights again")
    return dict(loaded)
