"""The attacker who learns a guest's defense: it runs the file on public images, and fits laws to what comes out.

Each law is tried on two other public images; the one that reads these best attacks. Nothing of it rests on the truth.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from leaklab.attacks.annealed import AnnealedLikelihood
from leaklab.attacks.learnt import emulation, entries, invariants, linear
from leaklab.attacks.matching.distances import OnlyWidened
from leaklab.guests import runs_of_entries
from leaklab.guests.arena import FIRST_CLIENT, REHEARSED, ROUNDS, Attacker, Tiny
from leaklab.guests.calls import sent
from leaklab.guests.moments import digits

CHOOSING, REHEARSING = 2, 30
"""Public images on which a law is tried, and evaluations of each stage."""
SEARCH = AnnealedLikelihood(coarsest=0.3, finest=0.003, stages=5)
ENOUGH = 3e-5
"""Mean square error at which no further law is tried."""


def laws(arena: Tiny) -> Iterator[tuple[str, Callable[[], OnlyWidened | None]]]:
    """Yield the name of each law, and what learns it; None where the defense is none of its kind."""
    rehearsals = arena.rehearsals
    shapes = [arena.stage.weights[name].shape for name in arena.sent_names]
    # what costs less and says more comes first: one that reads all but exactly ends the trials
    yield "linear law", lambda: linear.learnt(rehearsals)
    yield "what stays", lambda: invariants.learnt(rehearsals, shapes)
    yield "law of runs", lambda: runs_of_entries.learnt(rehearsals)
    yield "the file itself", lambda: emulation.learnt(rehearsals, emulated(arena), shapes)
    yield "law of the entry", lambda: entries.learnt(rehearsals)


def emulated(arena: Tiny) -> emulation.Apply:
    """Return what some client sends of a gradient, as the attacker computes it."""
    public = digits()
    moment = arena.moment(public.images[:1], public.labels[:1], FIRST_CLIENT)

    def apply(gradient: Sequence[Tensor]) -> list[Tensor]:
        hidden = {name: torch.zeros_like(value) for name, value in arena.stage.weights.items()}
        given = {**hidden, **dict(zip(arena.sent_names, gradient, strict=True))}
        return list(sent(arena.subject, arena.subject.new(), moment.fed(given), differentiable=True).values())

    return apply


def who_learnt(arena: Tiny) -> Attacker:
    """Return the attacker whose law is learnt: of several the best on public images that none learnt from."""
    public, place = digits(), REHEARSED
    images, labels = public.images[place : place + CHOOSING], public.labels[place : place + CHOOSING]
    moments = [arena.moment(images[k : k + 1], labels[k : k + 1], FIRST_CLIENT + place + k) for k in range(CHOOSING)]
    updates = [arena.out(moment) for moment in moments]
    tried: list[tuple[float, Attacker]] = []
    for name, learn in laws(arena):
        law = learn()
        if law is None:
            continue
        attacker = Attacker("learnt", name, SEARCH, law)
        reading = arena.read(attacker, updates, REHEARSING)
        errors = 10 ** (-torch.tensor(reading.decibels(images)) / 10)
        tried.append((float(errors.mean()) + int((reading.labels != labels).sum()), attacker))
        if tried[-1][0] < ENOUGH:
            break
    return min(tried, key=lambda pair: pair[0])[1]


def who_averages(arena: Tiny) -> Attacker:
    """Return the attacker of the mean of several rounds, whose linear law is learnt from such means."""
    law = linear.learnt(arena.rehearsed(1, arena.mean_of_rounds))
    return Attacker("rounds", f"linear law of the mean of {ROUNDS} rounds", SEARCH, law)
