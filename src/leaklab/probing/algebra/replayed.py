"""One sample of a client of several steps: its round is run again on what was read, for each label, and compared."""

from dataclasses import replace

import torch
from torch import Tensor

from leaklab.probing.algebra.closing import ASIDE, CLEARLY, ERRORS, ROUNDING
from leaklab.probing.algebra.rehearsal import FAILURES, Rehearsal
from leaklab.probing.algebra.rounding import floor
from leaklab.probing.case import Case
from leaklab.probing.exchange import Exchange

MOST_STEPS, MOST_LABELS = 200, 20


def replays(case: Case, rehearsal: Rehearsal, sample: Tensor) -> str | None:
    """Return why one sample [1, ...] is not proven by running the client on it; None where it is.

    Args:
        case: the exchange.
        rehearsal: of its client.
        sample: what was read, as it is held.
    """
    targets = rehearsal.targets
    if rehearsal.draws:
        return "the model draws numbers of its own, which nobody knows"
    if targets.dim() != 1 or targets.is_floating_point():
        return "its round can be run again only for a label of a few classes"
    if case.client.steps > MOST_STEPS:
        return f"its round of {case.client.steps} steps is not run again"
    client = replace(rehearsal.client, steps=case.client.steps, sends=case.exchange.kind, seed=case.seed + 2)
    own = sample.to(rehearsal.dtype)
    rests = {}
    try:
        for label in _labels(case):
            target = torch.full((1,), label).to(targets)
            rests[label] = _rest(case, client.round(own, target))
            if rests[label] <= 1:
                aside = _rest(case, client.round(own * (1 + ASIDE), target))
                return None if aside >= CLEARLY else "other samples near it leave no more of the update than it does"
    except FAILURES as failed:
        return f"its round could not be run again: {failed}"
    return f"run again on it, the client sends what is at best {min(rests.values()):.0e} times rounding away"


def _labels(case: Case) -> list[int]:
    """Return labels to try, those first at which a last bias grew."""
    last = [name for name in case.exchange.sent if case.exchange.sent[name].dim() == 1]
    if not last:
        return list(range(MOST_LABELS))
    order: list[int] = case.exchange.direction(last[-1]).argsort().tolist()
    return order[:MOST_LABELS]


def _rest(case: Case, replay: Exchange) -> float:
    """Return the largest rms difference of a tensor, in units of what counts as none."""
    worst = 0.0
    for name, values in case.exchange.sent.items():
        if name not in replay.sent or not values.is_floating_point():
            continue
        sent = case.exchange.direction(name)
        rest = float((sent - replay.direction(name)).square().mean().sqrt())
        size = float(sent.square().mean().sqrt())
        share = ROUNDING[torch.float64 if values.dtype == torch.float64 else torch.float32]
        worst = max(worst, rest / max(ERRORS * floor(case, name) + share * size, 1e-300))
    return worst
