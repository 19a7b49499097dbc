"""Torch's lazy device as a stand-in for a GPU: it computes on a processor and refuses tensors that lie elsewhere.

What it does not carry is done here in another way, so that the code under test stays as it is.
"""

from contextlib import contextmanager

import torch
import torch._lazy
import torch._lazy.config
import torch._lazy.ts_backend
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

# the shape of its result is asked for three tensors even where only one is wanted (Soteria's derivative by the images)
COMPUTED_ELSEWHERE = "aten::convolution_backward"
# how a tensor and a module go from one device to another
MOVING = {Tensor.to, Tensor.copy_, torch._has_compatible_shallow_copy_type}


def _chosen(values, index):
    """Bring an index over that lies on the processor, as a GPU does."""
    return values[tree_map(lambda one: one.to(values.device) if isinstance(one, Tensor) else one, index)]


def _unbind(values, dim=0):
    return tuple(values.select(dim, index) for index in range(values.shape[dim]))


def _split(values, sizes, dim=0):
    length = values.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return tuple(values.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=True))


def _chunk(values, chunks, dim=0):
    return _split(values, -(-values.shape[dim] // chunks), dim)


def _batch_norm(values, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Move running statistics that are views of a sweep's: the device's own batch norm changes a copy of them."""
    if training and running_mean is not None:
        others = [dim for dim in range(values.dim()) if dim != 1]
        variance, mean = torch.var_mean(values.detach(), others)
        for running, now in ((running_mean, mean), (running_var, variance)):
            running.copy_((1 - momentum) * running + momentum * now)
        running_mean = running_var = None
    return F.batch_norm(values, running_mean, running_var, weight, bias, training, momentum, eps)


def _vector_norm(values, dim=None, dtype=None, **more):
    """Take norms along dimensions without leaving the device.

    Its own way is over the processor, one tensor after the other, and for the next one it takes what it compiled for
    the last: it knows graphs by the shapes of their results alone.
    """
    if dim is None or more:
        return torch.linalg.vector_norm(values, dim=dim, dtype=dtype, **more)
    return values.to(dtype or values.dtype).square().sum(dim).sqrt()


# several views at once come back as tensors that call themselves lazy and lie on the processor
OTHERWISE = {
    Tensor.unbind: _unbind,
    torch.unbind: _unbind,
    Tensor.__iter__: lambda values: iter(_unbind(values)),
    Tensor.split: _split,
    torch.split: _split,
    Tensor.chunk: _chunk,
    torch.chunk: _chunk,
    F.batch_norm: _batch_norm,
    torch.linalg.vector_norm: _vector_norm,
    # the device itself copies from tensors of its own only
    Tensor.copy_: lambda target, source: target.copy_(source.to(target.device)),
    Tensor.__getitem__: _chosen,
}


class Strict(TorchFunctionMode):
    """Do otherwise what the device does wrong, and refuse mixtures that it lets pass (``torch.where`` among them).

    As on a GPU a tensor without dimensions may lie anywhere, and an index on the processor.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        devices = {
            value.device.type for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor) and value.dim()
        }
        brought = function is Tensor.__getitem__ and args[0].device.type == "lazy"
        if "lazy" in devices and len(devices) > 1 and function not in MOVING and not brought:
            name = getattr(function, "__name__", str(function))
            raise AssertionError(f"{name} takes tensors on different devices: {', '.join(sorted(devices))}")
        used = OTHERWISE.get(function, function) if "lazy" in devices else function
        return used(*args, **kwargs)


def begin():
    """Register the device, once in a process."""
    torch._lazy.ts_backend.init()


@contextmanager
def strict():
    """Work on the device within; what is changed for the whole process is put back."""
    optimised, elsewhere = torch._C._get_graph_executor_optimize(), torch._lazy.config.get_force_fallback()
    # every graph runs once or twice: making it fast takes longer than all its runs
    torch._C._set_graph_executor_optimize(False)
    torch._lazy.config.set_force_fallback(COMPUTED_ELSEWHERE)
    try:
        with Strict():
            yield "lazy"
    finally:
        torch._lazy.config.set_force_fallback(elsewhere)
        torch._C._set_graph_executor_optimize(optimised)
