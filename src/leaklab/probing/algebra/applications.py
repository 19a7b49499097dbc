"""Where a network multiplies what it has of a sample by a parameter: found while it runs, in any module or none.

PyTorch's functions are watched, not modules: a bare ``x @ self.w`` is seen as a ``Linear`` is. Of an application
y = W x, on one or more places of a sample, are known the rows that it is applied to and, by autograd, the derivative
at its output; so what a server gets of W and of a bias is tried, not assumed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from leaklab.probing.owned import drawing

PRODUCTS = ("linear", "matmul", "__matmul__", "__rmatmul__", "mm", "addmm", "bmm")
CONVOLUTIONS = ("conv1d", "conv2d")
TABLES = ("embedding",)
WHOLE = ("lstm", "gru", "rnn_tanh", "rnn_relu", "einsum", "conv3d", "bilinear", "multi_head_attention_forward")
"""Functions that multiply by parameters in ways that are not read."""
ORDER = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


@dataclass(frozen=True, eq=False)
class Application:
    """One multiplication by a parameter, as it was seen in a run on a batch of B.

    Attributes:
        name: of the parameter.
        kind: ``product``, ``convolution``, ``table`` (rows that are looked up), or the name of a function that is not
            read.
        number: its place among all applications of the run.
        turned: whether the parameter is [n, m], for units m and inputs n, in place of [m, n].
        given: what it is applied to, as it was given.
        output: what came out.
        settings: of a convolution: kernel, dilation, padding on both sides of both axes, stride.
    """

    name: str
    kind: str
    number: int
    given: Tensor
    output: Tensor
    turned: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, batch: int) -> Tensor:
        """Return what W is applied to, [B, P, n], at P places of each sample."""
        if self.kind == "table":
            return self.given.reshape(batch, -1)
        if self.kind == "product":
            return self.given.reshape(batch, -1, self.given.shape[-1])
        images = self.given if self.given.dim() == 4 else self.given[:, :, None]
        images = F.pad(images, self.settings["sides"])
        own = {key: self.settings[key] for key in ("kernel_size", "dilation", "stride")}
        return F.unfold(images, **own).mT

    def at_output(self, values: Tensor, batch: int) -> Tensor:
        """Return values of the output's shape as rows [B, P, m]."""
        if self.kind != "convolution":
            return values.reshape(batch, -1, values.shape[-1])
        return values.flatten(2).mT

    def upright(self, gradient: Tensor) -> Tensor:
        """Return a gradient of the parameter as [m, n]."""
        return gradient.mT if self.turned else gradient.reshape(len(gradient), -1)


class _EnoughError(Exception):
    """Raised to leave a forward pass where all that was asked for is known."""


class Watch(TorchFunctionMode):
    """Notes every application of a network's parameters while it is the mode.

    Args:
        model: the network.
        until: number of the last application that is of interest; None runs to the end.
        instead: by number, what an application is given in place of its own input.
    """

    def __init__(self, model: nn.Module, until: int | None = None, instead: Mapping[int, Tensor] | None = None) -> None:
        super().__init__()
        self.named = {value.untyped_storage().data_ptr(): (name, value) for name, value in model.named_parameters()}
        self.until, self.instead = until, dict(instead or {})
        self.seen: list[Application] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name not in (*PRODUCTS, *CONVOLUTIONS, *TABLES, *WHOLE):
            return func(*args, **kwargs)
        given = [*args, *kwargs.values()]
        place = next((place for place, value in enumerate(given) if self._is_weight(value)), None)
        if place is None or name in WHOLE:
            output = func(*args, **kwargs)
            self._note_whole(name, given, output)
            return output
        other = self._other(name, given, place)
        if other is None:
            return func(*args, **kwargs)
        if len(self.seen) in self.instead:
            fresh = self.instead[len(self.seen)].reshape(given[other].shape)
            args = [fresh if value is given[other] else value for value in args]
            kwargs = {key: fresh if value is given[other] else value for key, value in kwargs.items()}
        output = func(*args, **kwargs)
        self._note(name, dict(zip((*ORDER[: len(args)], *kwargs), given, strict=False)), given[place], given[other],
                   output)  # fmt: skip
        if self.until is not None and len(self.seen) > self.until:
            raise _EnoughError
        return output

    def _is_weight(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dim() > 1 and value.untyped_storage().data_ptr() in self.named

    def _other(self, name: str, given: Sequence[Any], place: int) -> int | None:
        """Return the place of the tensor that a weight is applied to; None where it is no function of this form."""
        tensors = [at for at, value in enumerate(given) if isinstance(value, Tensor) and at != place]
        if name == "addmm":
            tensors = [at for at in tensors if at > 0]
        return next((at for at in tensors if not self._is_weight(given[at])), None)

    def _note_whole(self, name: str, given: Sequence[Any], output: Any) -> None:
        flattened = [one for value in given for one in (value if isinstance(value, list | tuple) else [value])]
        weights = [value for value in flattened if self._is_weight(value)]
        inputs = next((value for value in flattened if isinstance(value, Tensor)), None)
        if weights and inputs is not None:
            first = output if isinstance(output, Tensor) else output[0]
            for weight in weights:
                parameter = self.named[weight.untyped_storage().data_ptr()][0]
                self.seen.append(Application(parameter, name, len(self.seen), inputs, first))

    def _note(self, name: str, bound: Mapping[str, Any], weight: Tensor, given: Tensor, output: Tensor) -> None:
        parameter, own = self.named[weight.untyped_storage().data_ptr()]
        kind, turned, settings = "product", False, dict[str, Any]()
        if name in TABLES:
            kind = "table"
        elif name in CONVOLUTIONS:
            kind, settings = ("convolution", _settings(weight, bound)) if bound.get("groups", 1) == 1 else (name, {})
        else:
            kind, turned = _form(name, weight, own, given, bound)
        self.seen.append(Application(parameter, kind, len(self.seen), given, output, turned, settings))


def _form(name: str, weight: Tensor, own: Tensor, given: Tensor, bound: Mapping[str, Any]) -> tuple[str, bool]:
    """Return whether a product is one of rows with W, and whether the parameter is kept as [n, m]."""
    if own.dim() != 2 or weight.shape not in (own.shape, own.mT.shape):
        return name, False
    whole = weight.shape == own.shape and weight.stride() == own.stride()
    if name == "linear":
        return "product", not whole
    right = weight.shape[0] == given.shape[-1] and bound.get("input") is not weight
    return ("product", whole) if right or name == "addmm" else (name, False)


def _settings(weight: Tensor, bound: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``unfold`` takes for a convolution in one or two axes."""
    axes = weight.dim() - 2

    def both(value: Any, fill: int) -> tuple[int, int]:
        numbers = (value,) * axes if isinstance(value, int) else tuple(value)
        return numbers if axes == 2 else (fill, numbers[0])  # type: ignore[return-value]

    kernel, dilation = both(tuple(weight.shape[2:]), 1), both(bound.get("dilation", 1), 1)
    padding = bound.get("padding", 0)
    if padding == "same":
        wanted = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        pairs = [(size // 2, size - size // 2) for size in wanted]
    else:
        pairs = [(size, size) for size in both(0 if padding == "valid" else padding, 0)]
    return {
        "kernel_size": kernel,
        "dilation": dilation,
        "stride": both(bound.get("stride", 1), 1),
        "sides": (*pairs[1], *pairs[0]),
    }


def watched(
    run: Callable[[nn.Module], Any],
    model: nn.Module,
    until: int | None = None,
    instead: Mapping[int, Tensor] | None = None,
    seed: int = 0,
) -> tuple[list[Application], Any]:
    """Return all applications of a run, and what it returned; None where it was left after ``until``.

    Args:
        run: what is done with the model.
        model: the network.
        until: see ``Watch``.
        instead: see ``Watch``.
        seed: of what the model draws.
    """
    watch, output = Watch(model, until, instead), None
    with drawing(seed):
        try:
            with watch:
                output = run(model)
        except _EnoughError:
            output = None
    return watch.seen, output
