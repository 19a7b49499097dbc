"""Operations, bytes and launches of some work, counted by what torch is asked to do; tensors may be fake."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import conv_flop_count, flop_registry, shape_wrapper

aten = torch.ops.aten
SILENT = {aten.detach, aten.alias, aten.empty, aten.empty_strided, aten.empty_like, aten.new_empty, aten._unsafe_view,
          aten.new_empty_strided, aten.lift_fresh, aten.lift, aten._reshape_alias}  # fmt: skip
"""Operations that launch nothing and move no bytes, besides views."""


@dataclass(frozen=True)
class Count:
    """What some work asks for.

    Attributes:
        flop: floating point operations of matrix products and convolutions, an addition and a product being two.
        bytes: inputs and outputs of every operation, as if each went to memory and back.
        kernels: operations that compute or move something; each is a launch.
        product_bytes: those of ``bytes`` that products and convolutions move: what is left where all else is done in
            passing.
    """

    flop: float = 0.0
    bytes: float = 0.0
    kernels: float = 0.0
    product_bytes: float = 0.0

    def __add__(self, other: "Count") -> "Count":
        return Count(*(own + more for own, more in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __mul__(self, factor: float) -> "Count":
        return Count(*(own * factor for own in vars(self).values()))

    def __sub__(self, other: "Count") -> "Count":
        return self + other * -1


class Counter(TorchDispatchMode):
    """Counts all operations below autograd.

    The operations of a product or convolution are those of torch's own ``FlopCounterMode``; that mode itself hangs
    hooks on modules, with which a second derivative for images cannot be taken.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.count = [0, 0, 0, 0]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Do the operation and note it."""
        found = func(*args, **(kwargs or {}))
        if func.namespace == "aten" and not func.is_view and func.overloadpacket not in SILENT:
            moved = sum(map(_size, tree_leaves((args, kwargs, found))))
            formula = FORMULAS.get(func.overloadpacket)
            flop = formula(*args, **(kwargs or {}), out_val=found) if formula else 0
            more = flop, moved, 1, moved if formula else 0
            self.count = [own + each for own, each in zip(self.count, more, strict=True)]
        return found


def _size(value: Any) -> int:
    """Return the bytes of a tensor; one that repeats a smaller one is read as that one."""
    if not isinstance(value, Tensor):
        return 0
    return min(value.numel() * value.element_size(), value.untyped_storage().nbytes())


def convolution_backward_flop(
    outer: Sequence[int], inputs: Sequence[int], kernel: Sequence[int], _bias: Any, _stride: Any, _padding: Any,
    _dilation: Any, transposed: bool, _output_padding: Any, _groups: int, mask: Sequence[bool], out_shape: Any = None,
) -> int:  # fmt: skip
    """Return the operations of both derivatives; torch's own formula is ``groups`` times too large for the kernel."""
    one: int = conv_flop_count(list(inputs), list(kernel), list(outer), transposed)
    return one * (bool(mask[0]) + bool(mask[1]))


# torch has no formula for those that add to what is there, by which dense networks step
FORMULAS: Mapping[Any, Callable[..., int]] = {
    **flop_registry,
    aten.addmm_: flop_registry[aten.addmm],
    aten.baddbmm_: flop_registry[aten.baddbmm],
    aten.convolution_backward: shape_wrapper(convolution_backward_flop),
}


def counted(work: Callable[[], object]) -> Count:
    """Do some work and return what it asked for."""
    with Counter() as counter:
        work()
    return Count(*counter.count)


@contextmanager
def fake() -> Iterator[None]:
    """Let tensors have shapes and no numbers: what is made here costs nothing."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


T = TypeVar("T")


def without_numbers(work: Callable[[], T]) -> T:
    """Do some work on fake tensors, or on real ones where it looks at numbers."""
    try:
        with fake():
            return work()
    except RuntimeError:
        return work()
