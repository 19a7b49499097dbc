"""OUTPOST theorem 1, checked: the measured gap of federated averaging with OUTPOST against its bound.

The task and its constants are those of ``convergence_bound``; S, the bound on what the defense adds, joins both the
variances sigma_k^2 and the squared gradients G^2. As printed S = D max_d (lambda r_d)^2 for D layers: the variance of
one noised entry a layer, without what pruning takes. Corrected, with m noised entries in the only layer here and p,
the largest norm of what pruning took,

    S = lambda^2 m r^2 + p^2 + 2 p sigma

bounds E|perturbed gradient - mean gradient|^2 - sigma^2, as the noise is independent of the rest and has mean zero.
What pruning takes has another mean than zero. The proof needs gradients that are right in the mean, so neither form
covers that: a bias of fixed size leaves a gap that does not vanish. Runs without pruning are those that it covers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leaklab.defenses.outpost import dropped_count
from leaklab.records.bounds import Count, Flag, NonNegative, OpenShare, PartShare, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.convergence import Constants, Plan, Trajectory, corrected, descend, draw
from leaklab.theory.convergence_bound import declared_steps, slope_of_second_half
from leaklab.theory.tasks import RidgeSoftmax, client, made_up, optimum, pooled

# OUTPOST's perturbation of many clients' gradients at once, on the task for which the theorem's constants are known.


class Perturbation:
    """Perturbs the gradients of step t = 1, 2, ... in turn, and keeps the largest terms that it met.

    Attributes:
        noise_square: largest expected square of the noise on a gradient, noise_scale^2 m r^2 with m noised entries.
        single_square: the same of a single entry, noise_scale^2 r^2.
        pruned_square: largest square of what pruning took from a gradient.
    """

    def __init__(
        self, seed: int, repeats: int, local_steps: int, noise_scale: float, pruned: float, noised: float, decay: float
    ) -> None:
        """Begin before the first step.

        Args:
            seed: of all draws, a stream per repetition.
            repeats: R.
            local_steps: E, after which clients take the mean and a round begins.
            noise_scale: lambda; 0 for no noise.
            pruned: rho; 0 for no pruning.
            noised: phi.
            decay: beta.
        """
        self._streams = [stream(seed, "outpost", repeat) for repeat in range(repeats)]
        self._local_steps, self._noise_scale, self._decay = local_steps, noise_scale, decay
        self._pruned, self._noised = pruned, noised
        self._step = 0
        self.noise_square = self.single_square = self.pruned_square = 0.0

    def __call__(self, gradients: Tensor, weights: Tensor) -> Tensor:
        """Return the gradients that the clients step with; both are [R, N, d, C]."""
        self._step += 1
        drawn = torch.stack([own.uniform(gradients.shape[1]) for own in self._streams])
        noise = torch.stack([own.normal(*gradients.shape[1:]) for own in self._streams])
        count = place_in_round(self._step, self._local_steps)
        chosen = (drawn <= 1 / (1 + self._decay * count)) | (count == 1)
        risks = weights.expand_as(gradients).var((-2, -1), correction=0).clamp(max=1)
        kept = pruned(gradients, self._pruned)
        mask = largest(gradients, self._noised)
        added = self._noise_scale * risks[..., None, None] * noise * mask
        self._remember(chosen, (gradients - kept).square().sum((-2, -1)), risks, int(mask[0, 0].sum()))
        return torch.where(chosen[..., None, None], kept + added, gradients)

    def _remember(self, chosen: Tensor, lost: Tensor, risks: Tensor, entries: int) -> None:
        single = self._noise_scale**2 * float((chosen * risks).max()) ** 2
        self.single_square = max(self.single_square, single)
        self.noise_square = max(self.noise_square, entries * single)
        self.pruned_square = max(self.pruned_square, float((chosen * lost).max()))


@dataclass(frozen=True)
class PerturbedRidge(RidgeSoftmax):
    """The same losses for clients who perturb the gradients with which they step.

    Attributes:
        perturbation: called once a step.
    """

    perturbation: Perturbation

    def sample_gradients(self, residuals: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Return each client's gradient of one sample as it steps with it, [R, N, d, C]."""
        return self.perturbation(super().sample_gradients(residuals, weights, chosen), weights)


def place_in_round(step: int, local_steps: int) -> int:
    """Return i = 1, 2, ... of step t = 1, 2, ...; means are taken after the steps E - 1, 2 E - 1, ..."""
    return step if step < local_steps else step % local_steps + 1


def pruned(gradients: Tensor, share: float) -> Tensor:
    """Return [..., d, C] with the smallest magnitudes of each gradient at zero."""
    sizes = gradients.abs().flatten(-2)
    count = dropped_count(sizes.shape[-1], share)
    least = sizes.kthvalue(count + 1, dim=-1).values
    return torch.where(gradients.abs() < least[..., None, None], 0.0, gradients)


def largest(gradients: Tensor, share: float) -> Tensor:
    """Return which entries are among the share with the largest squares, rounded up, [..., d, C]."""
    sizes = gradients.abs().flatten(-2)
    count = sizes.shape[-1] - dropped_count(sizes.shape[-1], 1 - share)
    mask = torch.zeros_like(sizes, dtype=torch.bool)
    return mask.scatter(-1, sizes.topk(count).indices, True).view_as(gradients)


@dataclass(frozen=True)
class OutpostBound:
    """Train on a made-up non-IID ridge softmax regression whose clients perturb their gradients.

    Attributes:
        clients: N.
        participants: K, whose models are averaged.
        local_steps: E, in steps, not in the epochs that the paper names.
        noise_scale: lambda; 0 for no noise.
        pruned: rho; 0 for no pruning. With both 0 all is plain federated averaging.
        noised: phi.
        decay: beta.
        steps: T.
        repeats: runs that the expectation is taken over, at least 2.
        samples: of each client.
        features: d.
        classes: C.
        ridge: mu.
        series: whether the curves are given by ``index`` too; of an item's settings one has this.
    """

    clients: Count = 10
    participants: Count = 5
    local_steps: Count = 5
    noise_scale: NonNegative = 0.8
    pruned: PartShare = 0.8
    noised: OpenShare = 0.4
    decay: NonNegative = 0.1
    steps: Count = 10_000
    repeats: Count = 20
    samples: Count = 20
    features: Count = 10
    classes: Count = 5
    ridge: Positive = 0.1
    series: Flag = False

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return what the run comes to, and the curves over about 100 steps.

        Numbers carry the noise scale and whether gradients were pruned in their row, and T where they belong to a step.

        Raises:
            UserError: the settings do not fit each other.
        """
        self._check()
        problem = made_up(seed, self.clients, self.samples, self.features, self.classes, self.ridge)
        best, lowest = optimum(pooled(problem))
        own = [optimum(client(problem, place))[1] for place in range(self.clients)]
        known = Constants(
            smoothness=problem.smoothness,
            convexity=self.ridge,
            variances=(),
            gradient_square=0.0,
            heterogeneity=lowest - float(np.mean(own)),
            start_distance=0.0,
            participants=self.participants,
            local_steps=self.local_steps,
            perturbed=False,
        )
        added = Perturbation(
            seed, self.repeats, self.local_steps, self.noise_scale, self.pruned, self.noised, self.decay
        )
        way = self._descend(seed, PerturbedRidge(**vars(problem), perturbation=added), known, lowest, track)
        constants = replace(
            known,
            variances=tuple(way.variances.tolist()),
            gradient_square=way.gradient_square,
            start_distance=float((way.start - best).square().sum((-2, -1)).mean()),
        )
        return self._numbers(constants, added, way.means.numpy())

    def _check(self) -> None:
        if self.participants > self.clients:
            raise UserError("outpost-bound: needs participants <= clients")
        if self.repeats < 2 or self.steps < 4 or self.samples < 2 or self.classes < 2:
            raise UserError("outpost-bound: needs repeats, samples and classes of at least 2 and at least 4 steps")

    def _descend(self, seed: int, problem: RidgeSoftmax, known: Constants, lowest: float, track: Track) -> Trajectory:
        plan = Plan(self.participants, self.local_steps, False, self.steps, self.repeats, known.rate)
        draws = draw(seed, problem, self.steps, self.repeats)
        label = f"noise {self.noise_scale}, {self.pruned:.0%} pruned"
        return descend(problem, plan, draws, lambda mean: problem.losses(mean).mean(-1) - lowest, track, label)

    def _numbers(self, constants: Constants, added: Perturbation, gaps: NDArray[np.float64]) -> Iterator[Number]:
        row = {"noise_scale": self.noise_scale, "pruning": self.pruned > 0}
        forms = {"printed": added.single_square, "corrected": corrected_term(constants, added)}
        bounds = {f"bound_{form}": with_term(constants, term) for form, term in forms.items()}
        means, spreads = gaps.mean(1), gaps.std(1, ddof=1)
        declared = declared_steps(self.steps)
        found = {f"added_square_{form}": term for form, term in forms.items()}
        found["gap_slope"] = slope_of_second_half(declared, means[declared - 1])
        found["bound"] = corrected(bounds["bound_corrected"], self.steps)
        for name, its in bounds.items():
            ratios = [means[step - 1] / corrected(its, step) for step in range(1, self.steps + 1)]
            found[f"largest_gap_over_{name}"] = max(ratios)
            found[f"last_gap_over_{name}"] = ratios[-1]
        yield from (Number(name, float(value), row) for name, value in found.items())
        yield Number("last_gap", float(means[-1]), row, std=float(spreads[-1]), n=self.repeats)
        for place, step in enumerate(declared.tolist()):
            at = {**row, "T": step}
            gap = Number("gap", float(means[step - 1]), at, None, float(spreads[step - 1]), self.repeats)
            at_step = [gap, *(Number(name, corrected(its, step), at) for name, its in bounds.items())]
            yield from at_step
            if self.series:
                yield Number("step", float(step), row, place)
                yield from (replace(number, row=row, index=place) for number in at_step)


def corrected_term(constants: Constants, added: Perturbation) -> float:
    """Return S = lambda^2 m r^2 + p^2 + 2 p sigma, see above."""
    taken = sqrt(added.pruned_square)
    return added.noise_square + added.pruned_square + 2 * taken * sqrt(max(constants.variances))


def with_term(constants: Constants, term: float) -> Constants:
    """Return the constants with S added to the variances and to the squared gradients, as the theorem does."""
    variances = tuple(variance + term for variance in constants.variances)
    return replace(constants, variances=variances, gradient_square=constants.gradient_square + term)


PLUGIN = OutpostBound
