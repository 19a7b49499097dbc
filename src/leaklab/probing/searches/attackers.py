"""The attackers of a probe: annealed MAP, inverting gradients, and matching without a prior, on any model.

They are the house's (``attacks/annealed.py``, ``attacks/ig.py``, ``attacks/dlg.py``) with its optimizers, distances,
stages and total variation, over the simulation of any client in place of its networks. Each returns where its own loss
was least; none sees the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.attacks.latents.unrolled import Ladder
from leaklab.attacks.matching.cosine import cosine_distance
from leaklab.attacks.search.backtracking import descend
from leaklab.attacks.search.priors import Box, WithPrior, total_variation
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.probing.searches.matching import Deadline, OutOfTime, Posterior, Timed
from leaklab.probing.searches.optimizers import SOFT
from leaklab.records.streams import Stream

ERRORS = (*Ladder(3.6e-3, 1.1e-5, 6).errors(), 1.1e-6)
"""Relative errors of annealed MAP's stages: those of ``attacks.annealed``, and one near the rounding of float32."""
SHARPER = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Softness of signs in the stages at the level of what it costs, relative to ``SOFT``."""
LEAST_OF_STAGE = 40
"""Evaluations that a stage is worth having for."""
HISTORY = 40
SPREAD = 0.3
"""Deviation of the latents of a start; a single sample starts at its mean."""
SMOOTHNESS = 1e-4
"""Weight of the total variation beside a cosine; that of ``attacks.ig``."""
FEWEST, MOST = 40, 1000
"""Iterations of signed Adam, whose rate falls with the share of them that is over."""


@dataclass(frozen=True)
class Ended:
    """Where a search ended.

    Attributes:
        posterior: what the point is an unknown of.
        point: [1, n].
        evaluations: of the round and its derivative.
        complete: whether it was not cut by time.
    """

    posterior: Posterior
    point: Tensor
    evaluations: int
    complete: bool


Attack = Callable[[Posterior, Stream, int, Deadline], Ended]
"""(posterior, draws, evaluations per stage, when to end) -> where it ended."""


def annealed_map(posterior: Posterior, draws: Stream, evaluations: int, deadline: Deadline) -> Ended:
    """Search the likeliest samples while the likelihood narrows; see ``attacks/annealed.py``."""
    width = SPREAD if posterior.targets.samples > 1 else 0.0
    point, used, complete = _start(posterior, width, draws), 1, True
    began = deadline.left
    posterior(point, torch.zeros(1, dtype=torch.int64, device=point.device))
    ladder = stages_of(posterior)
    for number, (error, soft) in enumerate(ladder):
        each = max((began - deadline.left) / used, 1e-6)
        if number and deadline.left <= 0:
            complete = False
            break
        # a few long stages find more than all of them cut short
        stages = min(len(ladder) - number, max(1, int(deadline.left / each) // LEAST_OF_STAGE))
        timed = Timed(replace(posterior, weight=1 / (2 * error**2), soft=soft), deadline.part(1 / stages))
        point, whole = _descended(timed, point, evaluations)
        used, complete = used + timed.evaluations, complete and whole
    return Ended(posterior, point, used, complete)


def stages_of(posterior: Posterior) -> list[tuple[float, float]]:
    """Return the relative error and the softness of each stage; the last error is that of noise where there is any.

    Noise is spread over all entries: at an error narrower than that of one, samples would be made to explain it. What
    softened signs miss of signs shrinks with the root of their softness, as there are fewer entries that near to zero.
    """
    narrowest = posterior.sent.narrowest
    stages = [(one, SOFT) for one in ERRORS if one > narrowest]
    if narrowest > ERRORS[-1]:
        softer = SHARPER if posterior.sent.simulation.softens else (1.0,)
        stages += [(narrowest * sharp**0.5, SOFT * sharp) for sharp in softer]
    return stages


def without_prior(posterior: Posterior, draws: Stream, evaluations: int, deadline: Deadline) -> Ended:
    """Match what was sent by samples of which nothing is believed; see ``attacks/dlg.py``."""
    nothing = replace(posterior.beliefs, words="nothing")
    posterior = replace(posterior, beliefs=nothing, believed=0.0, weight=1 / (2 * stages_of(posterior)[-1][0] ** 2))
    timed = Timed(posterior, deadline)
    point, whole = _descended(timed, _start(posterior, 1.0, draws), evaluations * len(ERRORS))
    return Ended(posterior, point, timed.evaluations, whole)


def inverting_gradients(posterior: Posterior, draws: Stream, evaluations: int, deadline: Deadline) -> Ended:
    """Match the direction by smooth pictures within their range, by signed Adam; see ``attacks/ig.py``."""
    beliefs, samples = posterior.beliefs, posterior.targets.samples
    posterior = replace(posterior, believed=0.0, direct=True, distance=cosine_distance)
    unit = torch.ones(1, dtype=posterior.sent.simulation.dtype, device=posterior.sent.simulation.device)
    prior = WithPrior(posterior, total_variation, SMOOTHNESS, (samples, *beliefs.shape), unit)
    timed, before = Timed(prior, deadline), deadline.left
    start = (0.5 + SPREAD * _start(posterior, 1.0, draws)).clamp(0, 1)
    start[:, posterior.numbers :] = 0.0
    timed(start, torch.zeros(1, dtype=torch.int64))
    each, most = max(before - deadline.left, 1e-6), min(evaluations * len(ERRORS), MOST)
    iterations = int(min(most, max(FEWEST, 0.9 * deadline.left / each)))
    box = Box() if posterior.targets.unknowns == 0 and beliefs.boxed else None
    try:
        signed_adam(timed, lambda *_: start[0], 1, SignedAdamSettings(iterations, 1, box=box))
        complete = iterations >= most
    except OutOfTime:
        complete = False
    assert timed.best is not None
    return Ended(posterior, timed.best, timed.evaluations, complete)


def _start(posterior: Posterior, width: float, draws: Stream) -> Tensor:
    """Return unknowns [1, n]; targets that are sought start at their middle."""
    simulation = posterior.sent.simulation
    point = torch.zeros(1, posterior.unknowns, dtype=torch.float64)
    point[0, : posterior.numbers] = width * draws.normal(posterior.numbers)
    return point.to(simulation.device, simulation.dtype)


def _descended(timed: Timed, start: Tensor, evaluations: int) -> tuple[Tensor, bool]:
    """Return the lowest point that was found, and whether time sufficed."""
    try:
        found = descend(timed, start, torch.zeros(1, dtype=torch.int64, device=start.device), evaluations, HISTORY)
    except OutOfTime:
        assert timed.best is not None
        return timed.best, False
    return found.points, True
