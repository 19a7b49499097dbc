"""GradDefense: the gradient is cut into slices that say equally much; some are clipped per sample and get noise.

Source: "Protect Privacy from Gradient Leakage Attack in Federated Learning", in the form of its public code with local
clipping; used by OUTPOST table III, figures 3 to 5. The server's compensation is not part of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.defenses.per_sample import network_of_round, sample_gradients
from leaklab.records.bounds import Count, Flag, OpenShare, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import DefenseTraits

# How much the gradient of each tensor says about the images: the measure by which GradDefense slices a gradient.


def sensitivities(network: nn.Sequential, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the mean over samples of |d (sum of the entries of the loss's gradient in w) / d x|_F by parameter w.

    It is 0 for the last affine layer, weight and bias: the slopes of a cross-entropy by its logits sum up to 0 whatever
    the image is. So GradDefense has that whole layer in one slice.

    Samples do not mix in evaluation state, so a second backward pass per parameter serves all of them.

    Args:
        network: in evaluation state.
        images: the root set, [B, C, H, W] as the network takes them.
        labels: [B].
    """
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        loss = F.cross_entropy(network(inputs), labels, reduction="sum")
        names, parameters = zip(*network.named_parameters(), strict=True)
        slopes = torch.autograd.grad(loss, parameters, create_graph=True)
        by_image = [torch.autograd.grad(slope.sum(), inputs, retain_graph=True)[0] for slope in slopes]
    return {name: float(own.flatten(1).norm(dim=1).mean()) for name, own in zip(names, by_image, strict=True)}


# cuts belong to the weights that the server sent: measured in a client's first step, kept while its streams live
_CUTS: WeakKeyDictionary[Stream, list[int]] = WeakKeyDictionary()


@dataclass(frozen=True)
class GradDefense(Defense):
    """Cut the gradient into slices of equal sensitivity and perturb randomly chosen ones, anew in every local step.

    All tensors are laid end to end and cut; a tensor's sensitivity is spread evenly over its entries. In a chosen
    slice each sample's gradient is shortened to ``sigma`` before the mean is taken, then N(0, sigma^2) is added to each
    entry. The other slices leave as they are. Sensitivities are measured once a round, on the client's own first
    samples in place of a public root set. Samples' gradients are those of the network in evaluation state.

    Attributes:
        slices: into how many the gradient is cut.
        noised: share of the slices that are perturbed in a step, at least one of them; between 0 and 1.
        sigma: standard deviation of the noise, and the bound of a sample's part of a slice (the paper gives 0.01 as a
            variance, its source code as a standard deviation); positive.
        clip: whether samples are shortened.
        root_samples: how many samples of the first batch the sensitivities are measured on.
    """

    traits: ClassVar[DefenseTraits] = DefenseTraits(least_batch="root_samples", step_factor=3.5)

    slices: Count = 10
    noised: OpenShare = 0.5
    sigma: Positive = 0.01
    clip: Flag = True
    root_samples: Count = 1

    def __post_init__(self) -> None:
        require_between("defense grad-defense", 0, 1, noised=self.noised)
        require_between("defense grad-defense", 0, inf, sigma=self.sigma)
        require_between("defense grad-defense", 0, inf, slices=self.slices, root_samples=self.root_samples)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with the chosen slices clipped and noised.

        Raises:
            UserError: no network at hand, gradients that are not its parameters', or too few samples for the root set.
        """
        network = network_of_round(context)
        self._check(gradients, network, context)
        cuts = self._cuts(list(gradients), network, context)
        chosen = context.stream("chosen slices").permutation(self.slices)[: max(1, round(self.noised * self.slices))]
        ranges = [(cuts[place], cuts[place + 1]) for place in sorted(chosen.tolist())]
        laid = EndToEnd(gradients)
        changed = laid.flat(gradients)
        if self.clip:
            pieces = [laid.pieces(first, end) for first, end in ranges]
            touched = dict.fromkeys(name for inside in pieces for name, _, _ in inside)
            by_sample = sample_gradients(network, context.batch, list(touched))
            for (first, end), inside in zip(ranges, pieces, strict=True):
                rows = [by_sample[name][:, low:high] for name, low, high in inside]
                changed[first:end] = clipped_mean(rows, self.sigma)
        for first, end in ranges:
            changed[first:end] += self.sigma * context.stream("noise").normal(end - first).to(changed)
        return laid.apart(changed)

    def _check(self, gradients: Mapping[str, Tensor], network: nn.Sequential, context: ClientContext) -> None:
        foreign = set(gradients) - {name for name, _ in network.named_parameters()}
        if foreign:
            raise UserError(f"defense grad-defense: {sorted(foreign)[0]} is no parameter of the network: use another")
        if len(context.batch["labels"]) < self.root_samples:
            raise UserError(
                f"defense grad-defense: root_samples is {self.root_samples}, but a batch has "
                f"{len(context.batch['labels'])}: lower it"
            )

    def _cuts(self, names: list[str], network: nn.Sequential, context: ClientContext) -> list[int]:
        of_round = context.stream("chosen slices")
        if of_round not in _CUTS:
            root = {name: value[: self.root_samples] for name, value in context.batch.items()}
            found = sensitivities(network, root["images"], root["labels"])
            sizes = [network.get_parameter(name).numel() for name in names]
            _CUTS[of_round] = equal_cuts([found[name] for name in names], sizes, self.slices)
        return _CUTS[of_round]


def equal_cuts(sensitivity: list[float], sizes: list[int], slices: int) -> list[int]:
    """Return the places 0 = c_0 <= c_1 <= ... <= c_slices between which entries sum up to equal sensitivity.

    Args:
        sensitivity: of each tensor, from 0; spread evenly over its entries. If they are all 0, or one is not finite,
            every entry counts alike.
        sizes: entries of each tensor.
        slices: number of slices; some are empty where there are fewer entries.
    """
    sums = np.cumsum([0.0, *sensitivity])
    ends = np.cumsum([0, *sizes])
    if not (np.isfinite(sums[-1]) and sums[-1] > 0):
        sums = ends.astype(np.float64)
    places: list[int] = np.interp(np.linspace(0, sums[-1], slices + 1), sums, ends).round().astype(int).tolist()
    return places


def clipped_mean(rows: Sequence[Tensor], bound: float) -> Tensor:
    """Return the mean over samples of their rows, each divided by max(1, its norm over ``bound``).

    Args:
        rows: the rows in pieces that lie side by side, [B, n_1], [B, n_2], ...; none for an empty slice.
        bound: C, positive.
    """
    if not rows:
        return torch.empty(0)
    norms = torch.stack([piece.norm(dim=1) for piece in rows]).norm(dim=0)
    factors = 1 / (norms / bound).clamp(min=1) / len(norms)
    return torch.cat([factors @ piece for piece in rows])


class EndToEnd:
    """Tensors laid end to end in one vector."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._shapes = {name: value.shape for name, value in tensors.items()}
        sizes = [value.numel() for value in tensors.values()]
        # one start more than tensors: the last is the end of all
        self._starts = dict(zip(self._shapes, np.cumsum([0, *sizes]).tolist(), strict=False))

    def flat(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return a new vector of all entries."""
        return torch.cat([value.flatten() for value in tensors.values()])

    def apart(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the tensors of a vector."""
        parts = torch.split(flat, [shape.numel() for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def pieces(self, first: int, end: int) -> list[tuple[str, int, int]]:
        """Return which entries of which tensors lie at the places from ``first`` to below ``end``, in order."""
        found = []
        for name, start in self._starts.items():
            low, high = max(first - start, 0), min(end - start, self._shapes[name].numel())
            if low < high:
                found.append((name, low, high))
        return found


PLUGIN = GradDefense
