"""Optimizers written out, so that local steps can be differentiated in the gradients that they take.

``torch.optim`` changes parameters in place and without a derivative. Here each is a function from a gradient and the
parameter's value to its next value, with torch's own names of settings. One that is not in ``RULES`` has none.

Adam and its kin divide a gradient by its own size: in a first step hardly more than the sign is left, whose derivative
is zero nearly everywhere. A softened step adds a share of the tensor's mean square to the squares, so that entries near
zero have a slope.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.probing.client import Client

SOFT = 0.1
"""Entries of a gradient that a sign is softened for, relative to the root mean square of their tensor."""
Memory = dict[str, Any]
"""What an optimizer keeps of one parameter from step to step."""
Rule = Callable[[Mapping[str, Any], Tensor, Tensor, Memory, float], Tensor]
"""(settings, gradient, value, memory, how much signs are softened, 0 for not) -> value after the step."""
Step = tuple[Rule, Mapping[str, Any]]
"""What is done with one parameter in one step."""


def soft_sign(gradient: Tensor, soft: float = SOFT) -> Tensor:
    """Return the signs of a gradient, with a slope where it is small: below ``soft`` root mean squares."""
    signs: Tensor = gradient / (gradient.square() + _softness(gradient.square(), soft)).sqrt()
    return signs


def _softness(squares: Tensor, soft: float) -> Tensor:
    """Return what is added to squares before their root is taken."""
    return soft**2 * squares.mean().clamp(min=torch.finfo(squares.dtype).tiny)


def steps_of(client: Client, trained: Sequence[nn.Parameter]) -> list[list[Step]] | None:
    """Return what is done with each parameter in each local step; None where the optimizer has no rule."""
    copies = [nn.Parameter(value.detach().clone()) for value in trained]
    optimizer = torch.optim.SGD(copies, lr=client.rate) if client.optimizer is None else client.optimizer(copies)
    rule = RULES.get(type(optimizer))
    if rule is None:
        return None
    schedule = None if client.schedule is None else client.schedule(optimizer)
    found: list[list[Step]] = []
    for _ in range(client.steps):
        settings = {id(value): dict(group) for group in optimizer.param_groups for value in group["params"]}
        found.append([(rule, settings[id(one)]) if id(one) in settings else (_kept, {}) for one in copies])
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return found


def _kept(own: Mapping[str, Any], gradient: Tensor, value: Tensor, memory: Memory, soft: float) -> Tensor:
    return value


def _turned(own: Mapping[str, Any], gradient: Tensor, value: Tensor) -> Tensor:
    """Return the gradient of what is minimised, with the decay that torch adds to it."""
    gradient = -gradient if own["maximize"] else gradient
    if own["weight_decay"]:
        gradient = gradient + own["weight_decay"] * value
    return gradient


def _sgd(own: Mapping[str, Any], gradient: Tensor, value: Tensor, memory: Memory, soft: float) -> Tensor:
    """``torch.optim.SGD``."""
    gradient = _turned(own, gradient, value)
    if own["momentum"]:
        known = memory.get("momentum")
        kept = gradient if known is None else own["momentum"] * known + (1 - own["dampening"]) * gradient
        memory["momentum"] = kept
        gradient = gradient + own["momentum"] * kept if own["nesterov"] else kept
    moved: Tensor = value - own["lr"] * gradient
    return moved


def _adam(own: Mapping[str, Any], gradient: Tensor, value: Tensor, memory: Memory, soft: float) -> Tensor:
    """``torch.optim.Adam``, and ``AdamW``, whose decay is that of the value itself."""
    decoupled = own.get("decoupled_weight_decay", False)
    if decoupled:
        value = value * (1 - own["lr"] * own["weight_decay"])
    gradient = _turned({**own, "weight_decay": 0} if decoupled else own, gradient, value)
    one, two = own["betas"]
    step = memory["step"] = memory.get("step", 0) + 1
    mean = memory["mean"] = one * memory.get("mean", 0.0) + (1 - one) * gradient
    squares = memory["squares"] = two * memory.get("squares", 0.0) + (1 - two) * gradient.square()
    if own["amsgrad"]:
        known = memory.get("largest")
        squares = memory["largest"] = squares if known is None else torch.maximum(known, squares)
    size = _root(squares / (1 - two**step), soft) + own["eps"]
    moved: Tensor = value - own["lr"] / (1 - one**step) * mean / size
    return moved


def _rmsprop(own: Mapping[str, Any], gradient: Tensor, value: Tensor, memory: Memory, soft: float) -> Tensor:
    """``torch.optim.RMSprop``."""
    gradient = _turned(own, gradient, value)
    keep = own["alpha"]
    squares = memory["squares"] = keep * memory.get("squares", 0.0) + (1 - keep) * gradient.square()
    if own["centered"]:
        mean = memory["mean"] = keep * memory.get("mean", 0.0) + (1 - keep) * gradient
        squares = squares - mean.square()
    way = gradient / (_root(squares, soft) + own["eps"])
    if own["momentum"]:
        way = memory["momentum"] = own["momentum"] * memory.get("momentum", 0.0) + way
    moved: Tensor = value - own["lr"] * way
    return moved


def _adagrad(own: Mapping[str, Any], gradient: Tensor, value: Tensor, memory: Memory, soft: float) -> Tensor:
    """``torch.optim.Adagrad``."""
    gradient = _turned(own, gradient, value)
    step = memory["step"] = memory.get("step", 0) + 1
    begun = torch.full_like(gradient, own["initial_accumulator_value"])
    squares = memory["squares"] = memory.get("squares", begun) + gradient.square()
    rate = own["lr"] / (1 + (step - 1) * own["lr_decay"])
    moved: Tensor = value - rate * gradient / (_root(squares, soft) + own["eps"])
    return moved


def _root(squares: Tensor, soft: float) -> Tensor:
    """Return the root of mean squares, with a slope at zero where it is softened."""
    return (squares + _softness(squares, soft)).sqrt() if soft else squares.sqrt()


RULES: dict[type[torch.optim.Optimizer], Rule] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.RMSprop: _rmsprop,
    torch.optim.Adagrad: _adagrad,
}
"""The optimizers that are written out."""
DIVIDING = (_adam, _rmsprop, _adagrad)
"""Rules that divide by a gradient's own size, and are softened."""


def divides(steps: Sequence[Sequence[Step]] | None) -> bool:
    """Tell whether any of the steps divides by a gradient's own size."""
    return any(rule in DIVIDING for every in steps or () for rule, _ in every)
