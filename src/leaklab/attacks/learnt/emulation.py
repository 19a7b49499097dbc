"""The defense itself as the law: it is run on the dummy gradient, and what comes out is matched.

It takes a defense that sends the same whenever it is given the same gradient, and of which automatic differentiation
gives the slope: a fixed rotation, a clip, whatever is differentiable. What is random, or has steps, is for the other
laws. What is sent differs from what the defense makes of the dummy gradient by the error e of the search's stage
alone, relative to the root mean square of its tensor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from leaklab.attacks.learnt.linear import TINY, Rehearsals
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened
from leaklab.records.streams import stream

Apply = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""What a client sends of a gradient, tensor by tensor; it can be differentiated."""
RIGHT, STEP = 0.05, 1e-3
"""Relative error of a slope that counts as right; step of a central difference, over the gradient's own size."""
DIRECTIONS = 3


@dataclass(frozen=True)
class EmulatedLaw(OnlyWidened):
    """A defense that is run in the loss; a ``distances.Likelihood``.

    Attributes:
        apply: the defense.
    """

    apply: Apply

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""
        return Differentiated(partial(_value, law=self, error=error))


def learnt(rehearsals: Rehearsals, apply: Apply, shapes: Sequence[torch.Size]) -> EmulatedLaw | None:
    """Return the law; None where the defense draws, or its slope cannot be had.

    Args:
        rehearsals: gradients and what was sent, several times each.
        apply: the defense.
        shapes: of the tensors.
    """
    count = rehearsals.draws
    for sent in rehearsals.sent:
        draws = sent.view(-1, count, sent.shape[1])
        if not torch.equal(draws, draws[:, :1].expand_as(draws)):
            return None
    image = [g[0].view(shape) for g, shape in zip(rehearsals.gradients, shapes, strict=True)]
    return EmulatedLaw(apply) if _slope_is_right(image, apply) else None


def _slope_is_right(gradient: Sequence[Tensor], apply: Apply) -> bool:
    """Tell whether automatic differentiation agrees with central differences: in random directions, and along g."""
    draws = stream(0, "directions")
    size = float(torch.cat([g.flatten() for g in gradient]).pow(2).mean().sqrt())
    around = [[size * draws.normal(*g.shape).to(g) for g in gradient] for _ in range(DIRECTIONS)]
    sent = [one.detach() for one in apply(gradient)]
    for along in (*around, list(gradient)):  # along g alone a clip moves nothing, which is easily told wrong
        up, down = (apply([g + sign * STEP * u for g, u in zip(gradient, along, strict=True)]) for sign in (1, -1))
        moved = [(u - d).detach() / (2 * STEP) for u, d in zip(up, down, strict=True)]
        weights = sent if along[0] is gradient[0] else moved
        told = _slope(gradient, along, weights, apply)
        scale = sum(float((w**2).sum()) for w in weights)
        if told is None or not scale or abs(told - _product(weights, moved)) > RIGHT * scale:
            return False
    return True


def _slope(
    gradient: Sequence[Tensor], along: Sequence[Tensor], weights: Sequence[Tensor], apply: Apply
) -> float | None:
    """Return how what is sent, times weights, moves along a direction, as told by differentiation; None without."""
    leaves = [g.clone().requires_grad_() for g in gradient]
    with torch.enable_grad():
        value = torch.stack([(w * o).sum() for w, o in zip(weights, apply(leaves), strict=True)]).sum()
    if not value.requires_grad:
        return None
    slopes = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return _product(slopes, along)


def _product(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    return sum(float((a * b).sum()) for a, b in zip(one, other, strict=True))


def _value(gradients: Sequence[Tensor], observed: Sequence[Tensor], law: EmulatedLaw, error: float) -> Tensor:
    rows = [law.apply(gradient) for gradient in zip(*gradients, strict=True)]
    total = observed[0].new_zeros(len(gradients[0]))
    for emulated, sent in zip(zip(*rows, strict=True), observed, strict=True):
        floor = error**2 * (sent**2).flatten(1).mean(1) + TINY**0.5
        total = total + ((torch.stack(emulated) - sent) ** 2).flatten(1).sum(1) / (2 * floor)
    return total
