"""What is told without a picture: which of some candidates a client trained on, and whether a sample was a member.

Somebody who holds a sample asks only whether it was used. The gradient of a member is part of what was sent, so it
points along it, and a sum of candidates' gradients explains most with the members in it. Training also lowers the loss
of members more than that of others. Strangers are public samples, of the same class where targets are classes: else a
label that is known would pass for a membership.

Sources: gradients as evidence of membership, "Comprehensive Privacy Analysis of Deep Learning" (Nasr, Shokri,
Houmansadr); the loss as such, "Privacy Risk in Machine Learning" (Yeom et al.).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median
from typing import Any

import torch
from scipy.stats import hypergeom, rankdata
from torch import Tensor

from leaklab.metrics.intervals import summarise_share
from leaklab.probing.case import Case
from leaklab.probing.searches.simulation import Simulation, simulated
from leaklab.probing.searches.singles import Singles, singles_of
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

STRANGERS, FEWEST = 100, 20
"""Public samples that stand beside the private ones, and how few of them where time is short."""
DRAWS = 2000
"""Permutations of a test."""


@dataclass(frozen=True)
class Named:
    """Candidates, ranked by how much of what was sent they explain.

    Attributes:
        weights: in the best sum of their gradients, [M].
        cosines: of their gradients with what was sent, [M].
        order: candidates, the likeliest first, [M].
        samples: in the client's round; so many are named.
        unexplained: length of what the best sum leaves, relative to what was sent.
        true: those that the client trained on; None where nobody says.
    """

    weights: tuple[float, ...]
    cosines: tuple[float, ...]
    order: tuple[int, ...]
    samples: int
    unexplained: float
    true: tuple[int, ...] | None = None

    @property
    def named(self) -> tuple[int, ...]:
        """The likeliest candidates, as many as the client has samples."""
        return self.order[: self.samples]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Place in the order of each candidate that is true, from 1."""
        return tuple(self.order.index(one) + 1 for one in self.true or ())

    @property
    def hits(self) -> int:
        """How many of those that are named are true."""
        return len(set(self.named) & set(self.true or ()))

    @property
    def by_chance(self) -> float:
        """How many would be by chance."""
        return len(self.named) * len(self.true or ()) / max(1, len(self.order))

    @property
    def p(self) -> float:
        """Probability of as many hits or more by chance (hypergeometric)."""
        return float(hypergeom.sf(self.hits - 1, len(self.order), len(self.true or ()), len(self.named)))

    def lines(self) -> tuple[str, ...]:
        """Return what came out, in sentences."""
        if not self.order:
            return ("There were no candidates to name.",)
        left = f"the best sum of the candidates' gradients leaves {100 * self.unexplained:.1f} % of what was sent"
        if self.true is None:
            return (f"Of {len(self.order)} candidates {len(self.named)} are named: {list(self.named)}; {left}.",)
        return (
            f"Of {len(self.order)} candidates, {len(self.true)} of them true, {len(self.named)} are named and "
            f"{self.hits} of these are true; by chance {self.by_chance:.2g} would be (p = {self.p:.2g}); the true ones "
            f"have median rank {median(self.ranks):g}; {left}.",
        )

    def record(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        own = {"candidates": len(self.order), "named": list(self.named), "unexplained": self.unexplained}
        told = {"true": list(self.true or ()), "ranks": list(self.ranks), "hits": self.hits}
        return own if self.true is None else {**own, **told, "by_chance": self.by_chance, "p": self.p}


@dataclass(frozen=True)
class Evidence:
    """How well one number tells members from strangers.

    Attributes:
        by: ``weight`` in the best sum of the gradients of all members and strangers, ``cosine`` of the gradient with
            what was sent, or fall of the ``loss`` in the round.
        beaten: of each member the share of the strangers of its class that have less of it.
        p: of each member, the probability that a stranger of its class has as much.
        auc: mean of ``beaten``: 1 tells all members, 0.5 is chance.
        low: end of the interval of ``auc``; None below six members.
        high: the other end.
        p_all: probability of such an ``auc`` if members were drawn from all at random, by permutation.
    """

    by: str
    beaten: tuple[float, ...]
    p: tuple[float, ...]
    auc: float
    low: float | None
    high: float | None
    p_all: float


@dataclass(frozen=True)
class Membership:
    """Whether the private samples can be told from strangers.

    Attributes:
        members: how many were tested.
        strangers: how many each was tested against, on average.
        same_class: whether strangers are of a member's class.
        evidence: one for each number that was looked at.
    """

    members: int
    strangers: float
    same_class: bool
    evidence: tuple[Evidence, ...]

    def lines(self) -> tuple[str, ...]:
        """Return what came out, in sentences."""
        others = f"{self.strangers:.0f} strangers" + (" of the same class" if self.same_class else "")
        said = []
        for one in self.evidence:
            between = "" if one.low is None or one.high is None else f", interval {one.low:.2f} to {one.high:.2f}"
            said.append(
                f"By {one.by}, a member is told from {others} with an AUC of {one.auc:.2f}{between} "
                f"(chance: 0.50; {self.members} members; p = {one.p_all:.2g})."
            )
        return tuple(said)

    def record(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        evidence = [{**vars(one), "beaten": list(one.beaten), "p": list(one.p)} for one in self.evidence]
        return {**vars(self), "evidence": evidence, "chance": 0.5}


def named(
    case: Case, candidates: Tensor, targets: Tensor, *, true: Sequence[int] | None = None, samples: int | None = None
) -> Named:
    """Rank candidates by how much of what was sent they explain.

    Args:
        case: the exchange.
        candidates: [M, ...], as samples are held.
        targets: [M, ...] of the candidates.
        true: which of them the client trained on.
        samples: how many are named; None for as many as the case has inputs.

    Raises:
        UserError: there are no candidates, or nobody says how many to name.
    """
    number = samples if samples is not None else None if case.inputs is None else len(case.inputs)
    if not number or not len(candidates) or len(candidates) != len(targets):
        raise UserError("naming needs candidates, as many targets, and how many to name: give samples")

    def fitted(dtype: torch.dtype | None) -> Singles:
        simulation = Simulation(case.client, case.exchange, still=True, dtype=dtype)
        return singles_of(simulation, case.exchange, *_as(simulation, candidates, targets), case.seed)

    singles = simulated(fitted)
    weights, cosines = singles.weights(), singles.cosines()
    order = sorted(range(len(weights)), key=lambda row: (-float(weights[row]), -float(cosines[row])))
    said = None if true is None else tuple(int(one) for one in true)
    return Named(
        tuple(weights.tolist()), tuple(cosines.tolist()), tuple(order), number, singles.unexplained(weights), said
    )


def line_up(case: Case, strangers: int = STRANGERS) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Return the private samples among public ones, in a drawn order: candidates, targets, and which are private.

    Raises:
        UserError: the case has no samples, or nobody else's.
    """
    inputs, targets, others, of_others = _both(case)
    kept = stream(case.seed, "strangers").permutation(len(others))[:strangers]
    every, wanted = torch.cat([inputs, others[kept].to(inputs)]), torch.cat([targets, of_others[kept].to(targets)])
    order = stream(case.seed, "line-up").permutation(len(every))
    places = order.argsort()[: len(inputs)]
    return every[order], wanted[order], tuple(places.tolist())


def membership(case: Case, strangers: int = STRANGERS, seconds: float = inf) -> Membership:
    """Test whether the private samples can be told from public ones.

    Args:
        case: with inputs, targets and public samples.
        strangers: for each class, or in all where targets are no classes.
        seconds: there are fewer strangers if so many would take longer, but ``FEWEST`` at least.

    Raises:
        UserError: the case has no samples, or nobody else's.
    """
    inputs, targets, others, of_others = _both(case)
    whole = targets.dim() == 1 and not targets.is_floating_point()
    if seconds < inf:
        each = simulated(lambda dtype: _seconds_each(case, inputs[:1], targets[:1], dtype))
        classes = len(set(targets.tolist())) if whole else 1
        strangers = min(strangers, max(FEWEST, int(seconds / each - len(inputs)) // classes))
    groups = _groups(targets, of_others, strangers, case.seed)
    used = sorted({row for own in groups for row in own})
    together = torch.cat([inputs, others[used].to(inputs)]), torch.cat([targets, of_others[used].to(targets)])
    numbers = simulated(lambda dtype: _numbers(case, *together, dtype))
    columns = [[len(inputs) + used.index(row) for row in own] for own in groups]
    kinds = [targets[row].item() if whole else 0 for row in range(len(inputs))]
    evidence = tuple(_evidence(by, values.double().cpu(), columns, kinds, case.seed) for by, values in numbers.items())
    return Membership(len(inputs), fmean(len(own) for own in columns), whole, evidence)


def _seconds_each(case: Case, inputs: Tensor, targets: Tensor, dtype: torch.dtype | None) -> float:
    for _ in range(2):  # a first call takes longer
        start = time.monotonic()
        _numbers(case, inputs, targets, dtype)
    return time.monotonic() - start


def _numbers(case: Case, inputs: Tensor, targets: Tensor, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Return the numbers that ``Evidence`` speaks of, of each sample: [M] each."""
    simulation = Simulation(case.client, case.exchange, still=True, dtype=dtype)
    every = _as(simulation, inputs, targets)
    moved = simulation.observed(case.exchange)
    if case.exchange.kind == "gradient":
        moved = [case.client.rate * one for one in moved]
    falls = [
        simulation.loss(*one) - simulation.loss(*one, moved)
        for one in ((every[0][row : row + 1], every[1][row : row + 1]) for row in range(len(inputs)))
    ]
    singles = singles_of(simulation, case.exchange, *every, case.seed)
    return {"weight": singles.weights(), "cosine": singles.cosines(), "loss": torch.stack(falls)}


def _evidence(by: str, values: Tensor, columns: Sequence[Sequence[int]], kinds: Sequence[float], seed: int) -> Evidence:
    beaten = [_beaten(values[row], values[list(own)]) for row, own in enumerate(columns)]
    p = [(1 + int((values[list(own)] >= values[row]).sum())) / (1 + len(own)) for row, own in enumerate(columns)]
    draws, total = stream(seed, "permutations", by), torch.zeros(DRAWS, dtype=torch.float64)
    for kind in dict.fromkeys(kinds):
        members = [row for row, one in enumerate(kinds) if one == kind]
        own = columns[members[0]]
        ranks = torch.as_tensor(rankdata(values[[*members, *own]].numpy()))
        drawn = draws.uniform(DRAWS, len(ranks)).argsort(1)[:, : len(members)]
        # the rank sum of those who are drawn as members, as how many strangers each of them beats (Mann, Whitney)
        total += (ranks[drawn].sum(1) - len(members) * (len(members) + 1) / 2) / len(own)
    at_least = int((total / len(columns) >= fmean(beaten) - 1e-9).sum())
    share = summarise_share(beaten)
    return Evidence(
        by, tuple(beaten), tuple(p), fmean(beaten), share.ci_low, share.ci_high, (1 + at_least) / (1 + DRAWS)
    )


def _beaten(one: Tensor, others: Tensor) -> float:
    return float(((others < one).double() + 0.5 * (others == one).double()).mean())


def _groups(targets: Tensor, of_others: Tensor, strangers: int, seed: int) -> list[list[int]]:
    """Return the strangers of each member: of its class where there are any."""
    order = stream(seed, "strangers").permutation(len(of_others))
    if targets.dim() > 1 or targets.is_floating_point():
        return [order[:strangers].tolist() for _ in range(len(targets))]
    found = []
    for label in targets.tolist():
        own = order[of_others.cpu()[order] == label][:strangers]
        if not len(own):
            raise UserError(f"no public sample is of class {label}: add some, or no member of it is told from others")
        found.append(own.tolist())
    return found


def _as(simulation: Simulation, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return samples and targets in the type and on the device of a simulation; integers stay integers."""
    inputs, targets = (one.to(simulation.device) for one in (inputs, targets))
    return tuple(one.to(simulation.dtype) if one.is_floating_point() else one for one in (inputs, targets))  # type: ignore[return-value]


def _both(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if case.inputs is None or case.targets is None or case.public is None or not len(case.public[0]):
        raise UserError("candidates and members are told from public samples: give the case inputs, targets and public")
    return case.inputs, case.targets, *case.public
