"""The likelihood of the mean of several steps, each with a gradient of its own whose largest entries alone are sent.

``ranked_mixture`` says what a perturbed step makes of an entry: by the ranks of that step's gradient it is dropped, or
noise alone, or itself with noise. With gradients g_1 ... g_E that differ, as those of different batches do, an observed
entry is the sum of E such outcomes, with shares w_t of the mean::

    p(o) = sum over the outcomes of all steps of  P(outcomes) N(o; sum of w_t m_t, sum of w_t^2 v_t)

A step that was left as it is has one outcome, its gradient. Which steps were perturbed holds for all entries at once.
An entry is zero exactly where every step dropped it.

Source: the defenses are algorithm 1 of the OUTPOST paper and gradient compression; the attacker is ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import log

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from leaklab.attacks.matching.distances import mean_square

# Soft ranks: how likely an entry belongs to the largest ones of its tensor, if entries are known with an error only.

MOST_STEPS = 60
"""Newton steps, or halvings, for the logarithm of a threshold; four to eight are usual."""
NEAR = 1e-9
"""Error of the sum of the probabilities, relative to their number, from which one step more is exact."""
SHARE_OF_WIDEST = 0.8
NOTHING = 1e-20
"""What a size of zero counts, relative to the mean of its tensor."""


def rank_logits(sizes: Tensor, largest: Tensor, width: float) -> Tensor:
    """Return l of every entry: [T, n]; differentiable, also through the threshold.

    Args:
        sizes: squares of a tensor's entries for each trial, [T, n].
        largest: k of each trial, [T], above 0 and below n.
        width: w, positive; cut where entries of size zero would fill the k places.
    """
    width = min(width, _widest(sizes.shape[1], int(largest.min())))
    # entries that are all zero have to have a threshold too
    sizes = sizes + (NOTHING * sizes.mean(1, keepdim=True)).clamp(min=torch.finfo(sizes.dtype).tiny)
    with torch.no_grad():
        inverse = _inverse_threshold(sizes, largest, width)
        share = torch.sigmoid((sizes * inverse[:, None] - 1) / (2 * width))
        slope = (share * (1 - share) * sizes).sum(1) / (2 * width)
        slope = slope.clamp(min=torch.finfo(slope.dtype).tiny)
    # one Newton step more, through which the threshold's derivative comes (implicit function theorem)
    excess = torch.sigmoid((sizes * inverse[:, None] - 1) / (2 * width)).sum(1) - largest
    inverse = inverse - excess / slope
    return (sizes * inverse[:, None] - 1) / (2 * width)


def _widest(entries: int, largest: int) -> float:
    """Return the width up to which there is a threshold: entries of size zero have a probability too."""
    odds = entries / largest - 1
    return SHARE_OF_WIDEST / (2 * log(odds)) if odds > 1 else float("inf")


def _inverse_threshold(sizes: Tensor, largest: Tensor, width: float) -> Tensor:
    """Return 1 / t of each trial, [T], by Newton's method in its logarithm with a bracket."""
    ordered = sizes.sort(1, descending=True).values.log()
    place = largest.long()[:, None]
    guess = -ordered.gather(1, torch.cat([place - 1, place], 1)).mean(1)
    low, high = torch.full_like(guess, -torch.inf), torch.full_like(guess, torch.inf)
    for step in range(MOST_STEPS):
        product = sizes * guess.exp()[:, None]
        share = torch.sigmoid((product - 1) / (2 * width))
        excess = share.sum(1) - largest
        moving = excess.abs() > NEAR * largest
        if not bool(moving.any()):
            break
        low, high = torch.where(excess < 0, guess, low), torch.where(excess > 0, guess, high)
        slope = (share * (1 - share) * product).sum(1) / (2 * width)
        newton = guess - (excess / slope).clamp(-1, 1)
        middle = torch.where((low + high).isfinite(), (low + high) / 2, newton)
        inside = (newton > low) & (newton < high) & (step < MOST_STEPS // 2)
        # by trial, so that a trial's threshold does not depend on the others'
        guess = torch.where(moving, torch.where(inside, newton, middle), guess)
    return guess.exp()


Outcome = tuple[Tensor, Tensor, float]
"""Its log-probability [T, n], the mean m [T, n] of the entry, and its variance v."""


@dataclass(frozen=True)
class StepRanks:
    """What a defense by ranks does in the E steps of a round.

    Attributes:
        counts: from the entries of a tensor to how many are kept and how many get noise.
        deviations: s of the noise of each tensor.
        schedule: chance of each step to be perturbed, [E].
        shares: weight of each step in the mean that was observed, [E].
        error: see ``likelihood``.
    """

    counts: Callable[[int], tuple[int, int]]
    deviations: Sequence[float]
    schedule: Sequence[float]
    shares: Sequence[float]
    error: float

    def negative_log_likelihood(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
        """Return the value [T] for the gradients of all steps, [T, E, ...] per parameter, up to a constant."""
        sparse = self._is_sparse(observed)
        tensors = [
            _Entries(self, g.flatten(2), o.flatten(1), deviation, sparse)
            for g, o, deviation in zip(gradients, observed, self.deviations, strict=True)
        ]
        patterns, values = self.patterns(), []
        for pattern, chance in patterns:
            value = log(chance) + torch.stack([entries.log_density(pattern) for entries in tensors]).sum(0)
            if len(patterns) > 1 and self._leaves_zeros(observed):
                # zeros are left only where every step was perturbed
                value = torch.where(sparse == all(pattern), value, -torch.inf)
            values.append(value)
        return -torch.stack(values).logsumexp(0)

    def patterns(self) -> list[tuple[tuple[bool, ...], float]]:
        """Return which steps may have been perturbed, with the chance of that; only what can be."""
        found = []
        for pattern in product((True, False), repeat=len(self.schedule)):
            chance = 1.0
            for perturbed, share in zip(pattern, self.schedule, strict=True):
                chance *= share if perturbed else 1 - share
            if chance > 0:
                found.append((pattern, chance))
        return found

    def _changed(self, entries: int) -> int:
        return max(self.counts(entries))

    def _leaves_zeros(self, observed: Sequence[Tensor]) -> bool:
        return any(self._changed(o[0].numel()) < o[0].numel() for o in observed)

    def _is_sparse(self, observed: Sequence[Tensor]) -> Tensor:
        """Tell of which trials every step was perturbed: [T].

        Where that is not sure, there are then as many zeros as steps with independent ranks would leave, or nearly.
        """
        if all(share == 1 for share in self.schedule):
            return torch.ones(len(observed[0]), dtype=torch.bool, device=observed[0].device)
        sizes = [o[0].numel() for o in observed]
        return mostly_zeros(observed, [n * (1 - self._changed(n) / n) ** len(self.schedule) for n in sizes])


def mostly_zeros(observed: Sequence[Tensor], expected: Sequence[float]) -> Tensor:
    """Tell of which trials most tensors have half of the expected zeros at least: [T].

    By tensor, as some layers have weights that no input reaches: these are always zero, and may be most entries.
    """
    shown = [2 * (o.flatten(1) == 0).sum(1) >= zeros for o, zeros in zip(observed, expected, strict=True)]
    return 2 * torch.stack(shown).sum(0) > len(shown)


class _Entries:
    """The entries of one tensor of T trials: the outcomes of each step by the ranks of its gradient.

    Args:
        law: of all steps.
        gradient: [T, E, n].
        observed: o, [T, n].
        deviation: s.
        sparse: of which trials every step was perturbed, [T].
    """

    def __init__(self, law: StepRanks, gradient: Tensor, observed: Tensor, deviation: float, sparse: Tensor) -> None:
        self.law, self.gradient, self.observed, self.deviation = law, gradient, observed, deviation
        self.zero = (observed == 0) & sparse[:, None]
        self.floor = law.error**2 * mean_square(observed).clamp(min=torch.finfo(observed.dtype).tiny)
        self.largest_variance = self.floor + deviation**2 * sum(share**2 for share in law.shares)
        kept, noised = law.counts(observed.shape[1])
        self.noise_between = noised > kept
        self.small, self.changed = self._log_shares(max(kept, noised))
        self.between, self.large = self._log_shares(min(kept, noised))

    def _log_shares(self, largest: int) -> tuple[Tensor | None, Tensor | None]:
        """Return the log-probabilities [T, E, n] not to be among the largest of a step, and to be; None for never."""
        entries = self.gradient.shape[2]
        if largest in (0, entries):
            sure = torch.zeros_like(self.gradient)
            return (None, sure) if largest else (sure, None)
        rows = self.gradient.flatten(0, 1) ** 2
        counts = torch.full((len(rows),), largest, device=rows.device)
        logits = rank_logits(rows, counts, self.law.error).view_as(self.gradient)
        return logsigmoid(-logits), logsigmoid(logits)

    def log_density(self, pattern: tuple[bool, ...]) -> Tensor:
        """Return the log-density [T] if these steps were perturbed; in multiples of that of all noise."""
        terms = [self._of(outcomes) for outcomes in product(*map(self._outcomes, range(len(pattern)), pattern))]
        if not (all(pattern) and self.small is not None):
            return torch.stack(terms).logsumexp(0).sum(1)
        # the first outcome of every step: all of them dropped the entry, which is then zero
        return torch.where(self.zero, self.small.sum(1), torch.stack(terms[1:]).logsumexp(0)).sum(1)

    def _outcomes(self, step: int, perturbed: bool) -> list[Outcome]:
        """Return what may have become of the entries in a step; that they were dropped comes first."""
        gradient, noise = self.gradient[:, step], self.deviation**2
        nothing = torch.zeros_like(gradient)
        if not perturbed:
            return [(nothing, gradient, 0.0)]
        found = [] if self.small is None else [(self.small[:, step], nothing, 0.0)]
        if self.changed is not None and self.between is not None:
            between = (nothing, noise) if self.noise_between else (gradient, 0.0)
            found.append((self.changed[:, step] + self.between[:, step], *between))
        if self.changed is not None and self.large is not None:
            found.append((self.changed[:, step] + self.large[:, step], gradient, noise))
        return found

    def _of(self, outcomes: Sequence[Outcome]) -> Tensor:
        """Return the log-density [T, n] of one outcome for each step."""
        variance, mean, chance = self.floor, torch.zeros_like(self.observed), torch.zeros_like(self.observed)
        for (own_chance, own_mean, own_variance), share in zip(outcomes, self.law.shares, strict=True):
            chance, mean = chance + own_chance, mean + share * own_mean
            variance = variance + share**2 * own_variance
        return chance - (self.observed - mean) ** 2 / (2 * variance) - torch.log(variance / self.largest_variance) / 2


def largest_only(gradient: Tensor, kept: int) -> Tensor:
    """Return [T, ...] with all but the ``kept`` largest entries of each trial at zero; which ones counts as fixed."""
    sizes = gradient.detach().abs().flatten(1)
    smallest = sizes.topk(kept, 1).values[:, -1:]
    return torch.where(sizes >= smallest, gradient.flatten(1), 0.0).view_as(gradient)
