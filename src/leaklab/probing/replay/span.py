"""Whether the samples are the client's, told from the update alone: whatever its weights and its training were."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.attacks.least_squares import least_squares
from leaklab.probing.replay.bench import REFUSED
from leaklab.probing.replay.mistake import Setting
from leaklab.probing.replay.target import Target
from leaklab.records import tensor_algebra

INSIDE, OUTSIDE = 1e-3, 0.02
"""Share of a layer's update outside the span of its inputs: below the one they are its own, above the other not."""
FULL = 0.9
"""Rank relative to the width from which everything lies in the span."""


def whose(setting: Setting, target: Target) -> tuple[str, ...]:
    """Return what the first layer's update says of the samples, in sentences; none where it cannot tell.

    The rows of a dense layer's update are combinations of its inputs, and an embedding moves the rows of its tokens
    only, in any number of steps of gradient descent, from any weights and for any loss.

    Args:
        setting: as described, with the samples [N, ...].
        target: all entries of what was sent.
    """
    name, layer, seen = _first(setting)
    weight = f"{name}.weight"
    if layer is None or seen is None or weight not in target.names:
        return ()
    moved = target.exchange.direction(weight)
    if isinstance(layer, nn.Embedding):
        return _of_tokens(moved, seen, weight)
    rows = seen.flatten(0, -2).double()
    span = torch.cat([rows, torch.ones_like(rows[:1])])
    if tensor_algebra.rank(span) > FULL * span.shape[1]:
        return ()
    left = moved.T - span.T @ least_squares(span.T, moved.T)
    share = float(left.norm() / moved.norm()) if bool(moved.any()) else 0.0
    if share < INSIDE:
        said = f"The update of {weight} lies in the span of the given samples: they are the client's, whatever else is "
        return (f"{said}wrong. Ask for the weights that it began with, its loss and its optimizer.",)
    if share > OUTSIDE:
        said = f"{100 * share:.0f} % of the update of {weight} lies outside the span of the given samples: other "
        return (f"{said}samples, another preparation of them, decay or noise. Ask for the client's samples.",)
    return ()


def _of_tokens(moved: Tensor, tokens: Tensor, weight: str) -> tuple[str, ...]:
    live = set(moved.flatten(1).any(1).nonzero().flatten().tolist())
    given = set(tokens.flatten().tolist())
    if len(live) > FULL * len(moved):
        return ()
    if strange := live - given:
        said = f"{len(strange)} rows of {weight} moved whose tokens no given sample has: these are other samples."
        return (f"{said} Ask for the client's.",)
    if live == given:
        said = f"The rows of {weight} that moved are those of the given samples' tokens: they are the client's."
        return (f"{said} Ask for the weights that it began with, its loss and its optimizer.",)
    return ()


def _first(setting: Setting) -> tuple[str, nn.Module | None, Tensor | None]:
    """Return the first dense layer or embedding that takes the samples themselves, and what it takes [..., width]."""
    model, prepare = deepcopy(setting.client.model), setting.client.prepare
    inputs = setting.inputs if prepare is None else prepare(setting.inputs)
    found: list[tuple[str, nn.Module, Tensor]] = []

    def look(name: str, layer: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Tensor) and given[0].numel() == inputs.numel():
            seen = given[0].detach()
            if torch.equal(seen.flatten(), inputs.flatten().to(seen)):
                found.append((name, layer, seen))

    for name, layer in model.named_modules():
        if isinstance(layer, (nn.Linear, nn.Embedding)):
            layer.register_forward_pre_hook(lambda layer, given, name=name: look(name, layer, given))
    try:
        with torch.no_grad():
            setting.client.output(model, setting.inputs)
    except REFUSED:
        return "", None, None
    return found[0] if found else ("", None, None)
