"""Run the client as described, compare with what was sent, and name what differs."""

from collections.abc import Mapping
from dataclasses import replace
from time import thread_time

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.inputs import floor_of
from leaklab.probing.replay.inquiry import Inquiry
from leaklab.probing.replay.mistake import Setting, holding
from leaklab.probing.replay.result import Replay
from leaklab.probing.replay.spread import spread
from leaklab.probing.replay.target import Target
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

LEAST, FLOORS = 1e-4, 5
"""A replay agrees below the larger of the one and this many times the rounding."""
MOST_SHAKEN = 0.01
"""Largest error that is put down to rounding."""
BUDGET = 10.0
"""Seconds of a search, of the processor that runs it: a busy machine changes no result."""


def replay(case: Case, others: Mapping[str, Mapping[str, Tensor]] | None = None, budget: float = BUDGET) -> Replay:
    """Compare a described client's round with what was really sent.

    Args:
        case: with inputs and targets in the order in which the client used them.
        others: other states that may have been at work, e.g. of other rounds or clients, by what they are called; each
            by the names of ``state_dict``.
        budget: seconds that the search for mistakes may take, of the thread that calls.

    Raises:
        UserError: there are no samples, nothing to compare, or the client cannot be run as described.
    """
    begun = thread_time()
    if case.inputs is None or case.targets is None:
        raise UserError("a replay needs the client's samples: give inputs and targets")
    parameters = dict(case.client.model.named_parameters())
    names = [name for name in case.exchange.sent if name in parameters and name in case.exchange.before]
    if not names:
        raise UserError("nothing that was sent is a parameter of the model: see what the inputs' stage says")
    setting = Setting(
        replace(case.client, model=holding(case.client.model, case.exchange.before)), case.inputs, case.targets
    )
    target = Target.of(case.exchange, names)
    if not bool(target.sent.any()):
        raise UserError("every tensor that was sent is zero: there is nothing to explain")
    flat = target.flat(setting.client.round(setting.inputs, setting.targets))
    tolerance = max(LEAST, FLOORS * floor_of(case.exchange, names))
    if tolerance < target.error(flat) < MOST_SHAKEN:
        tolerance = max(tolerance, min(FLOORS * _shaken(setting, target, flat), MOST_SHAKEN))
    error, length = target.error(flat), float(target.sent.norm() * flat.norm())
    found = Replay(
        matches=error <= tolerance,
        error=error,
        cosine=float(target.sent @ flat) / length if length else 0.0,
        factor=target.factor(flat),
        tolerance=tolerance,
        tensors=target.tensors(flat),
        corrected=case,
    )
    if not found.matches and setting.client.defense is not None:
        found = _among_replays(found, setting, target, flat)
    if not found.matches:
        found = Inquiry(case, setting, target, found, others or {}, begun + budget).run()
    return replace(found, seconds=thread_time() - begun)


def _among_replays(found: Replay, setting: Setting, target: Target, flat: Tensor) -> Replay:
    """Return what was found, a match where a defense draws and what was sent may be one of its rounds."""
    several = spread(target.sent, flat, lambda: target.flat(setting.client.round(setting.inputs, setting.targets)))
    if several is None or not several.one_of_them:
        return found
    notes = () if several.visible else ("What the defense draws hides whether the description is right.",)
    return replace(
        found, matches=True, error=several.error, tolerance=several.limit, drawn=True, hidden=not several.visible,
        notes=(*found.notes, *notes),
    )  # fmt: skip


def _shaken(setting: Setting, target: Target, flat: Tensor) -> float:
    """Return how far a replay moves when the weights do so by half a unit in their last place, relative.

    Optimizers that divide by a gradient's size, as Adam, send rounding at full length where the gradient is none.
    """
    state = setting.client.model.state_dict()
    moved = {
        name: value * (1 + torch.finfo(value.dtype).eps * (stream(0, name).uniform(*value.shape).to(value) - 0.5))
        for name, value in state.items()
        if value.is_floating_point()
    }
    shaken = setting.of(model=holding(setting.client.model, moved))
    got = shaken.client.round(setting.inputs, setting.targets)
    # what is sent are weights: those before the round count as moved too
    own = replace(target, exchange=replace(target.exchange, before={**target.exchange.before, **moved}))
    return float((own.flat(got) - flat).norm() / target.sent.norm())
