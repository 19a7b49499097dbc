"""OUTPOST's perturbation of many clients' gradients at once, on the task for which the theorem's constants are known.

Source: OUTPOST, algorithm 1; ``defenses/outpost.py`` is the defense itself, one client at a time.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.defenses.gradient_compression import dropped_count
from leaklab.records.streams import stream
from leaklab.theory.ridge_softmax import RidgeSoftmax


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
