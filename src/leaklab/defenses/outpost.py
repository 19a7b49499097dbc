"""Defenses that prune: gradient compression in every local step, OUTPOST in some, where the gradient tells most.

Sources: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", table 3, baseline
"gradient compression" (the magnitudes are those of one step, without the memory of "Deep Gradient Compression"); "More
Than Enough Is Too Much: Adaptive Defenses Against Gradient Leakage in Production Federated Learning", algorithm 1 and
eqs. (3), (4); OUTPOST's settings are those of its section V.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.records.bounds import Flag, Natural, NonNegative, OpenShare, Positive
from leaklab.records.errors import UserError

ROUNDING = 1e-6
"""A product like 0.29 * 100 falls short of its decimal value by less than this."""
Parts = Literal["both", "prune", "noise"]


@dataclass(frozen=True)
class GradientCompression(Defense):
    """Set the smallest magnitudes of each tensor to zero, in every local step; the rest stays exact.

    Who sees zeros knows which entries were dropped, and that they were small; see
    ``attacks/adaptive/emulation.py``.

    Attributes:
        dropped: share of each tensor's entries that becomes zero, between 0 and 1. Entries as large as the smallest
            one kept stay too, so that ties can only keep more; a tensor of one entry is kept.
    """

    dropped: OpenShare = 0.9

    def __post_init__(self) -> None:
        require_between("defense gradient-compression", 0, 1, dropped=self.dropped)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with its small entries at zero."""
        return {name: self._pruned(value) for name, value in gradients.items()}

    def _pruned(self, value: Tensor) -> Tensor:
        sizes = value.abs()
        smallest_kept = sizes.flatten().kthvalue(dropped_count(value.numel(), self.dropped) + 1).values
        return torch.where(sizes < smallest_kept, 0.0, value)


def dropped_count(entries: int, share: float) -> int:
    """Return floor(share * entries), for shares below 1 that are meant as decimals (0.29 of 100 is 29)."""
    return int(share * entries + ROUNDING)


@dataclass(frozen=True)
class Outpost(Defense):
    """Perturb step i = 1, 2, ... of a round with probability 1 / (1 + decay i), the first one always.

    A perturbed step zeroes the smallest magnitudes of each tensor and adds N(0, (noise_scale r)^2) to the entries with
    the largest Fisher information, where r is the variance of the tensor's current local weights, at most 1 (not its
    standard deviation). The Fisher information is the squared batch gradient before pruning, so the noise covers
    what pruning kept, and as many again of the zeros where ``pruned`` is 0.8 and ``noised`` 0.4. All other steps are
    those of a client without defense. Weights and biases are tensors of their own.

    Attributes:
        pruned: rho, the share of each tensor's entries that becomes zero, between 0 and 1.
        noised: phi, the share of each tensor's entries that gets noise, rounded up, between 0 and 1.
        noise_scale: lambda, standard deviation of the noise over the risk; positive.
        decay: beta, how fast steps stop being perturbed; 0 perturbs all of them.
        parts: ``prune`` or ``noise`` does only that in a perturbed step.
        as_coded: as the public code has it where that differs. One threshold over all tensors says where the noise
            falls, on squares averaged over a tensor's first axis; i is the epoch times the batch, both from 1; the
            first step is drawn like the others. Its noise that comes back in every call is not kept, nor is its later
            form, which loses the result.
        epoch_steps: steps of an epoch, for ``as_coded``; 0 where the round is one epoch.
    """

    pruned: OpenShare = 0.8
    noised: OpenShare = 0.4
    noise_scale: Positive = 0.8
    decay: NonNegative = 0.1
    parts: Parts = "both"
    as_coded: Flag = False
    epoch_steps: Natural = 0

    def __post_init__(self) -> None:
        require_between("defense outpost", 0, 1, pruned=self.pruned, noised=self.noised)
        require_between("defense outpost", 0, inf, noise_scale=self.noise_scale)
        if not 0 <= self.decay < inf:
            raise UserError(f"defense outpost: decay must be a number from 0, not {self.decay!r}")

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient of one step, perturbed or as it is."""
        if not self._perturbs(context):
            return gradients
        kept = gradients
        if self.parts != "noise":
            kept = GradientCompression(self.pruned).gradient(gradients, context)
        if self.parts == "prune":
            return kept
        places = self._places_by_network(gradients) if self.as_coded else self._places_by_tensor(gradients)
        return {name: self._noisy(name, value, places[name], context) for name, value in kept.items()}

    def _perturbs(self, context: ClientContext) -> bool:
        drawn = context.stream("perturbed steps").number()
        if context.step == 0 and not self.as_coded:
            return True
        return drawn <= 1 / (1 + self.decay * self._count(context.step))

    def _count(self, step: int) -> int:
        if not (self.as_coded and self.epoch_steps):
            return step + 1
        epoch, batch = divmod(step, self.epoch_steps)
        return (epoch + 1) * (batch + 1)

    def _places_by_tensor(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the places of each tensor's largest squares; exactly so many, so that equal entries add none."""
        sizes = {name: value.abs().flatten() for name, value in gradients.items()}
        return {name: own.topk(self._noised_count(len(own))).indices for name, own in sizes.items()}

    def _places_by_network(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the places whose score, the mean square over the first axis, is among the largest of all tensors."""
        scores = {name: value.square().mean(0) for name, value in gradients.items()}
        every = torch.cat([score.flatten() for score in scores.values()])
        least = every.topk(self._noised_count(len(every))).values[-1]
        return {
            name: (scores[name] >= least).expand_as(value).flatten().nonzero().flatten()
            for name, value in gradients.items()
        }

    def _noised_count(self, entries: int) -> int:
        return entries - dropped_count(entries, 1 - self.noised)

    def _noisy(self, name: str, value: Tensor, places: Tensor, context: ClientContext) -> Tensor:
        risk = context.weights[name].var(correction=0).clamp(max=1)
        drawn = context.stream(f"noise of {name}").normal(len(places)).to(value)
        return value.flatten().index_add(0, places, self.noise_scale * risk.to(value) * drawn).view_as(value)


PLUGINS = {
    "gradient-compression": GradientCompression,
    "outpost": Outpost,
}
