"""Products of affine layers on the CPU by whichever library is faster for their size.

torch hands float32 products to its BLAS, which on processors of other makers than its own runs at half their rate; the
convolution library that comes with torch does not. For narrow layers the choice does not matter.
"""

import ctypes
import sys

import torch
from torch import Tensor
from torch.nn import functional as F

WIDE = 2**22
"""From so many multiplications on the other library is asked: a bound between the narrow and the wide layers of this
project's networks (32 samples through 512 x 10 and through 1024 x 512 weights), not a measured crossing."""


def affine(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return rows W^T + b without a graph.

    Args:
        rows: [N, K], contiguous.
        weight: [O, K], contiguous or the transpose of such a tensor.
        bias: [O] or None.

    Returns:
        [N, O].
    """
    if len(rows) * weight.numel() >= WIDE and has_fast_product(rows):
        answer: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
        return answer
    return F.linear(rows, weight, bias)


def has_fast_product(like: Tensor) -> bool:
    """Whether the other library can multiply tensors like this one."""
    usable = like.dtype == torch.float32 and like.device.type == "cpu" and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return usable and hasattr(torch.ops.mkldnn, "_linear_pointwise")


# Freed memory that the process keeps, because the next training step asks for the same pieces again.

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
LARGEST_KEPT = 2**30
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to hand freed pieces below 1 GiB out again, and return whether it will.

    By default large pieces go back to the operating system, which clears them for every step anew: a sixth of a step's
    time in the MNIST CNN. Affects the whole process; does nothing where the C library is not glibc.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # musl has the name but not the function's meaning: it answers 0
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, LARGEST_KEPT)) and bool(mallopt(TRIM_THRESHOLD, NEVER))
