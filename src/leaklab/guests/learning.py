"""The attacker who learns a guest's defense: it runs the file on public images, and fits laws to what comes out.

Each law is tried on two other public images; the one that reads these best attacks. Nothing of it rests on the truth.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import torch
from torch import Tensor

from leaklab.attacks.annealed import AnnealedLikelihood
from leaklab.attacks.learnt import emulation, entries, invariants, linear, runs
from leaklab.attacks.matching.distances import Distance, OnlyWidened
from leaklab.guests.calls import sent
from leaklab.guests.exposure import FIRST_CLIENT, ROUNDS, Attacker, Exposure
from leaklab.guests.moments import CHOOSING

REHEARSING = 30
"""Evaluations of each stage where a law is tried."""
SEARCH = AnnealedLikelihood(coarsest=0.3, finest=0.003, stages=5)
STEPWISE = replace(SEARCH, place="steps")
ENOUGH = 3e-5
"""Mean square error, or share of wrong tokens, at which no further law is tried."""


def laws(exposure: Exposure) -> Iterator[tuple[str, Callable[[], OnlyWidened | None]]]:
    """Yield the name of each law, and what learns it; None where the defense is none of its kind."""
    rehearsals = exposure.rehearsals
    shapes = [exposure.stage.weights[name].shape for name in exposure.sent_names]
    # what costs less and says more comes first: one that reads all but exactly ends the trials
    yield "linear law", lambda: linear.learnt(rehearsals)
    yield "what stays", lambda: invariants.learnt(rehearsals, shapes)
    yield "law of runs", lambda: runs.learnt(rehearsals)
    yield "the file itself", lambda: emulation.learnt(rehearsals, emulated(exposure), shapes)
    if exposure.arena.file.steps > 1:
        yield (
            "the file itself, step by step",
            lambda: by_steps(emulation.learnt(rehearsals, emulated(exposure), shapes)),
        )
    yield "law of the entry", lambda: entries.learnt(rehearsals)


def emulated(exposure: Exposure) -> emulation.Apply:
    """Return what some client sends of a gradient, as the attacker computes it."""
    moment = exposure.moment(*exposure.of_update(exposure.arena.public, 0), FIRST_CLIENT)

    def apply(gradient: Sequence[Tensor]) -> list[Tensor]:
        hidden = {name: torch.zeros_like(value) for name, value in exposure.stage.weights.items()}
        given = {**hidden, **dict(zip(exposure.sent_names, gradient, strict=True))}
        return list(sent(exposure.subject, exposure.subject.new(), moment.fed(given), differentiable=True).values())

    return apply


def who_learnt(exposure: Exposure) -> Attacker:
    """Return the attacker whose law is learnt: of several the best on public images that none learnt from."""
    public, first = exposure.arena.public, exposure.arena.file.rehearsals
    batches = [exposure.of_update(public, place) for place in range(first, first + CHOOSING)]
    images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    moments = [exposure.moment(*batch, FIRST_CLIENT + first + k) for k, batch in enumerate(batches)]
    updates = [exposure.out(moment) for moment in moments]
    tried: list[tuple[float, Attacker]] = []
    for name, learn in laws(exposure):
        law = learn()
        if law is None:
            continue
        attacker = Attacker("learnt", name, STEPWISE if isinstance(law, EmulatedSteps) else SEARCH, law)
        reading = exposure.read(attacker, updates, REHEARSING, labels)
        tried.append((fmean(reading.errors(images)) + int((reading.labels != labels).sum()), attacker))
        if tried[-1][0] < ENOUGH:
            break
    return min(tried, key=lambda pair: pair[0])[1]


def who_averages(exposure: Exposure) -> Attacker:
    """Return the attacker of the mean of several rounds, whose linear law is learnt from such means."""
    law = linear.learnt(exposure.rehearsed(1, exposure.mean_of_rounds))
    return Attacker("rounds", f"linear law of the mean of {ROUNDS} rounds", SEARCH, law)


# The file itself in each of several local steps: what is sent is the sum of what it makes of each step's gradient.


@dataclass(frozen=True)
class EmulatedSteps(emulation.EmulatedLaw):
    """A defense that is run in the loss on each step's gradient; a ``distances.StepLikelihood``.

    Where the client stood in its later steps is told by the plain gradients before, which is an error of the rate.
    """

    def of_steps(self, error: float, weights: Mapping[str, Tensor], shares: Sequence[float]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.StepLikelihood``."""
        return emulation.EmulatedLaw(partial(self._mean, shares)).widened(error, weights)

    def moved(self, gradient: Tensor) -> Tensor:
        """Return the gradient."""
        return gradient

    def _mean(self, shares: Sequence[float], gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return the mean of what is sent of gradients [E, ...]."""
        steps = [self.apply(one) for one in zip(*gradients, strict=True)]
        return [
            torch.stack([s * o for s, o in zip(shares, own, strict=True)]).sum(0) for own in zip(*steps, strict=True)
        ]


def by_steps(law: emulation.EmulatedLaw | None) -> EmulatedSteps | None:
    """Return a law of the file itself for each of several steps; None where there is none."""
    return None if law is None else EmulatedSteps(law.apply)
