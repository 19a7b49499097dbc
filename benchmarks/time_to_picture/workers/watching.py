"""The house's searches under a meter: what they evaluate is also offered to it, and nothing else changes.

All searches of ``attacks/search`` minimise an ``Objective``, and what they return is the lowest point that they have
evaluated. So a search is watched where it is called: by a module of ``leaklab.attacks`` under its own name.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from leaklab.attacks.latents.posterior import Posterior
from leaklab.attacks.search.backtracking import descend
from leaklab.attacks.search.restarts import Objective, search
from leaklab.attacks.search.signed_adam import signed_adam
from time_to_picture.workers.meter import Meter

SEARCHES: tuple[Callable[..., Any], ...] = (search, signed_adam, descend)


class Watched:
    """An objective, and a meter that hears of every evaluation."""

    def __init__(self, objective: Objective, meter: Meter) -> None:
        self._objective, self._meter = objective, meter

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the objective's values and derivatives; see ``Objective``."""
        losses, derivative = self._objective(points, rows)
        with self._meter.aside():
            usable = derivative.isfinite().all(1)
            told = torch.where(usable, losses, torch.nan).tolist()
            chosen, narrow = rows.tolist(), self._narrow()
        self._meter.offer(chosen, told, partial(self._images, points, rows), narrow)
        return losses, derivative

    def _narrow(self) -> float:
        """Return the weight of the distance: losses of stages that weigh it otherwise do not compare."""
        objective = self._objective
        return float(objective.weight.mean()) if isinstance(objective, Posterior) else 0.0

    def _images(self, points: Tensor, rows: Tensor, places: list[int]) -> Tensor:
        chosen, shape = points[places].detach(), self._meter.truths.shape[1:]
        if isinstance(self._objective, Posterior):
            with torch.no_grad():
                return self._objective.images(chosen, rows[places])
        # all other attacks have their images first among the unknowns
        return chosen[:, : shape.numel()].reshape(-1, *shape)


@contextmanager
def watching(meter: Meter) -> Iterator[None]:
    """Let a meter hear of every evaluation of the searches that run within."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            for own in SEARCHES if name.startswith("leaklab.attacks.") else ():
                called = own.__name__
                if getattr(module, called, None) is own:
                    stack.enter_context(patch.object(module, called, _watched(own, meter)))
        yield


def _watched(own: Callable[..., Any], meter: Meter) -> Callable[..., Any]:
    @wraps(own)
    def run(objective: Objective, *others: Any, **named: Any) -> Any:
        return own(Watched(objective, meter), *others, **named)

    return run
