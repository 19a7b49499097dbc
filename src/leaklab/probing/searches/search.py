"""The searches of a probe: who tries, in which order, within how many seconds, and what each found."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.reading import Reading
from leaklab.probing.searches import residual
from leaklab.probing.searches.attackers import Attack, Ended, annealed_map, inverting_gradients, without_prior
from leaklab.probing.searches.beliefs import Beliefs
from leaklab.probing.searches.matching import Deadline, Posterior, Sent
from leaklab.probing.searches.scene import Scene, scene_of
from leaklab.probing.searches.simulation import simulated
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

EVALUATIONS = 150
"""Of each stage of annealed MAP; other searches have as many in all."""
FIRST_SHARE = 0.6
"""Of the budget for the first search; the others share the rest."""
UNLIKE = 0.3
"""Relative error, beyond that of noise, from which a simulation of the true samples is of something else."""
EXPLAINED = 1e-4
"""Relative error below which nobody else has to try."""


@dataclass(frozen=True)
class Tried:
    """One search.

    Attributes:
        by: its name.
        believed: what it believed of samples before.
        error: how much of what was sent its samples leave unexplained, relative to its length; its own measure.
        evaluations: of the round and its derivative.
        seconds: that it took.
        complete: whether it was not cut by time.
    """

    by: str
    believed: str
    error: float
    evaluations: int
    seconds: float
    complete: bool


@dataclass(frozen=True)
class Searches:
    """What was sought and found.

    Attributes:
        readings: N of each search, in the order of the searches; before them, what layers saw.
        tried: the searches.
        untried: names of those that were left out, and why.
        targets: [N, ...] that the searches used; None where these were sought too, or nothing was searched.
        words: how the targets were known.
        defense: how a defense, or noise that was found, was simulated; empty where there was none.
        unknown: why a defense was not simulated; empty where it was, or where there was none.
        sent: what was matched, with its simulation; None where nothing was searched.
        layers: what layers saw, a sentence; empty where nothing is said of them.
    """

    readings: tuple[Reading, ...]
    tried: tuple[Tried, ...]
    untried: tuple[tuple[str, str], ...]
    targets: Tensor | None
    words: str
    defense: str = ""
    unknown: str = ""
    sent: Sent | None = field(default=None, repr=False)
    layers: str = ""

    @property
    def starved(self) -> bool:
        """Whether time cut all searches before any of them explained what was sent."""
        noise = 0.0 if self.sent is None else self.sent.noise
        least = max(UNLIKE, (1 + UNLIKE) * noise)
        return bool(self.tried) and all(not one.complete and one.error > least for one in self.tried)

    def unlike(self, inputs: Tensor | None, targets: Tensor | None) -> str:
        """Return what is wrong with the simulation, by the true samples that no search sees; empty for nothing.

        A search cannot find samples that its own simulation would not send.
        """
        if self.sent is None or inputs is None or targets is None:
            return ""
        simulation = self.sent.simulation
        own = [one.to(simulation.device) for one in (inputs.to(simulation.dtype), targets)]
        own[1] = own[1].to(simulation.dtype) if targets.is_floating_point() else own[1]
        error, noise = self.sent.error(own[0], own[1]), self.sent.noise
        if error <= max(UNLIKE, (1 + UNLIKE) * noise):
            return ""
        return f"what they simulate of the true samples differs from what was sent by {error:.2g} of its length"

    def lines(self) -> tuple[str, ...]:
        """Return what was done, in sentences; how close it came to the truth says the yardstick."""
        said = [self.layers] if self.layers else []
        if self.defense:
            said.append(f"What searches know of the defense: {self.defense}.")
        if self.unknown:
            said.append(f"Searches do not know the defense, and seek what it left of a direction: {self.unknown}.")
        said += [f"Targets were {self.words}." for _ in self.tried[:1]]
        said += [
            f"{one.by}, which believed {one.believed}, explains what was sent but for {one.error:.1e} of its length, "
            f"after {one.evaluations} evaluations in {one.seconds:.1f} s."
            + ("" if one.complete else " It was cut by the budget.")
            for one in self.tried
        ]
        if self.starved:
            said.append("The budget cut all searches before one of them explained what was sent: give a larger one.")
        said += [f"{name} was not tried: {reason}." for name, reason in self.untried]
        return tuple(said)

    def record(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        return {
            "tried": [dict(vars(one)) for one in self.tried],
            "layers": self.layers,
            "untried": [{"by": name, "reason": reason} for name, reason in self.untried],
            "defense": {"simulated": self.defense, "not simulated": self.unknown},
            "targets": {"known": self.words, "values": None if self.targets is None else self.targets.tolist()},
        }


def searches(
    case: Case,
    budget: float = 60.0,
    seed: int | None = None,
    *,
    labels: Tensor | None = None,
    samples: int | None = None,
    span: tuple[float, float] | None = None,
    evaluations: int = EVALUATIONS,
    only: Collection[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Searches:
    """Search for the samples behind what was sent.

    Of the private samples and targets only their number, type and shape are used.

    Args:
        case: the exchange; public samples lead the searches where there are any.
        budget: seconds; what was found when they are over stands.
        seed: of the starts; None for the case's.
        labels: targets [N, ...] that are known, in any order for one batch; None to read or to seek them.
        samples: N where the case has no inputs.
        span: smallest and largest number in a sample; None for those of the public samples, without which pictures are
            taken to lie in [0, 1] and other samples to have mean 0 and deviation 1.
        evaluations: of each stage.
        only: names of the searches that may try; None for all that fit the samples.
        clock: by which seconds are counted, e.g. ``time.process_time`` on a busy machine.

    Raises:
        UserError: nothing can be matched, or nothing is known of samples or targets; says what to give.
    """
    deadline = Deadline.after(budget, clock)
    draws = case.seed if seed is None else seed
    scene = simulated(lambda dtype: scene_of(case, draws, labels, samples, span, dtype, budget))
    plan, untried = _plan(scene.beliefs, only), list[tuple[str, str]]()
    layers, readings, tried = _by_layers(case, scene, only, deadline.part(FIRST_SHARE), untried)
    for place, (name, own, attack) in enumerate(plan):
        # many samples have the same signs, or the same rounded update: who explains these may be nobody's
        reason = _reason_against([] if scene.sent.narrowest else tried, deadline.left, budget, first=not tried)
        if reason:
            untried.append((name, reason))
            continue
        own_time = deadline.part(FIRST_SHARE if place == 0 and len(plan) > 1 else 1 / (len(plan) - place))
        one, found = _search(name, scene.posterior(own), attack, draws, evaluations, own_time)
        tried.append(one)
        readings += found
    told = (scene.targets.fixed, scene.targets.words, scene.known, scene.unknown, scene.sent, layers)
    return Searches(tuple(readings), tuple(tried), tuple(untried), *told)


def _by_layers(
    case: Case, scene: Scene, only: Collection[str] | None, deadline: Deadline, untried: list[tuple[str, str]]
) -> tuple[str, list[Reading], list[Tried]]:
    """Return what layers of a residual network saw, in words and readings; why not is added to ``untried``."""
    asked = (only is None or residual.NAME in only) and residual.fits(case)
    peel = _peeled(case, scene, deadline) if asked else None
    if isinstance(peel, str):
        untried.append((residual.NAME, peel))
    return ("", [], []) if peel is None or isinstance(peel, str) else peel


def _reason_against(telling: Sequence[Tried], left: float, budget: float, *, first: bool) -> str:
    if any(one.error < EXPLAINED for one in telling):
        return "another search explains what was sent"
    return f"the budget of {budget:g} s is used up" if left <= 0 and not first else ""


def _plan(beliefs: Sequence[Beliefs], only: Collection[str] | None) -> list[tuple[str, Beliefs, Attack]]:
    """Return the searches in their order.

    Raises:
        UserError: none of them is asked for.
    """
    first, last = beliefs[0], beliefs[-1]
    plan: list[tuple[str, Beliefs, Attack]] = [("annealed-map", first, annealed_map)]
    if len(beliefs) > 1:
        plan.append(("annealed-smooth" if last.picture else "annealed-plain", last, annealed_map))
    if last.picture and last.boxed:
        plan.append(("ig", last, inverting_gradients))
    plan.append(("dlg", last, without_prior))
    asked = [one for one in plan if only is None or one[0] in only]
    if not asked and residual.NAME not in (only or ()):
        raise UserError(f"there is no such search for these samples: choose from {', '.join(one[0] for one in plan)}")
    return asked


def _peeled(case: Case, scene: Scene, deadline: Deadline) -> tuple[str, list[Reading], list[Tried]] | str | None:
    """Return what layers saw in words, readings, and the search if a sample was sought; see ``residual_peel``."""
    before = deadline.left
    found = residual.residual_peel(case, scene, deadline)
    if found is None or isinstance(found, str):
        return found
    if found.picture is None:
        return found.words, list(found.readings), []
    error = scene.sent.error(found.picture, scene.targets(found.picture.new_zeros(scene.targets.unknowns)))
    own, words = replace(found.readings[-1], loss=error), scene.beliefs[0].words
    tried = Tried(residual.NAME, words, error, found.evaluations, before - deadline.left, found.complete)
    return found.words, [*found.readings[:-1], own], [tried]


def _search(
    name: str, posterior: Posterior, attack: Attack, seed: int, evaluations: int, deadline: Deadline
) -> tuple[Tried, list[Reading]]:
    before = deadline.left
    ended: Ended = attack(posterior, stream(seed, "probe", name), evaluations, deadline)
    with torch.no_grad():
        _, inputs, targets = ended.posterior.read(ended.point)
    error = posterior.sent.error(inputs, targets)
    took = before - deadline.left
    tried = Tried(name, ended.posterior.beliefs.words, error, ended.evaluations, took, ended.complete)
    return tried, [Reading(name, "input", one.detach(), False, error) for one in inputs]
