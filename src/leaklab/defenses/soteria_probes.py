"""Soteria within training: the lengths of all features' gradients estimated at once, from a few forward tangents.

Exact Soteria costs one backward pass per feature and step. For probes v of independent random signs,
E[(J v)_i^2] = |d r_i / d x|^2, so one forward pass with a tangent estimates the lengths of all features together.
Source of the defense: see ``soteria_mask``; used by OUTPOST figure 3 (rate 0.5).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, inf, prod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vmap

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.defenses.lrp import last_affine
from leaklab.defenses.outpost import dropped_count
from leaklab.defenses.per_sample import network_of_round
from leaklab.records.bounds import Count, OpenShare
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import DefenseTraits

# but for a bias, what they do to a tangent is what they do to a value
LINEAR = (nn.Linear, nn.Conv2d, nn.Flatten)
# the slope of an activation by its value
SLOPES: Mapping[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Sigmoid: lambda value: value * (1 - value),
    nn.ReLU: lambda value: value > 0,
}


@dataclass(frozen=True)
class SoteriaProbes(Defense):
    """Zero the columns of the last affine layer's weight gradient that ``soteria`` would, nearly, in every local step.

    The share of the columns that exact Soteria would choose too grows with the number of probes.

    Attributes:
        pruned: share of the features, between 0 and 1.
        probes: tangents per step; positive.
    """

    traits: ClassVar[DefenseTraits] = DefenseTraits(step_factor=2.65)

    pruned: OpenShare = 0.5
    probes: Count = 4

    def __post_init__(self) -> None:
        require_between("defense soteria-probes", 0, 1, pruned=self.pruned)
        if self.probes < 1:
            raise UserError(f"defense soteria-probes: probes must be at least 1, not {self.probes!r}")

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with the pruned columns zero.

        Raises:
            UserError: no network at hand, no affine layer, or a share that prunes no feature.
        """
        network = network_of_round(context)
        layer = last_affine(network, "defense soteria-probes")
        name, images = f"{layer}.weight", context.batch["images"]
        ratios = probed_ratios(_before(network, layer), images, self.probes, context.stream("probes"))
        count = dropped_count(len(ratios), self.pruned)
        if count == 0:
            raise UserError(f"defense soteria-probes: {self.pruned} of {len(ratios)} features is none: raise pruned")
        smallest = ratios.argsort(stable=True)[:count].to(gradients[name].device)
        return {**gradients, name: gradients[name].index_fill(1, smallest, 0.0)}


@torch.no_grad()
def probed_ratios(front: nn.Sequential, images: Tensor, probes: int, draws: Stream) -> Tensor:
    """Return estimates of q_i = sum over the batch of |d r_i / d x| / |r_i|: [F].

    Features without a value follow ``soteria_mask.sensitivity_ratios``: a dead one ranks last.

    Args:
        front: maps images [B, C, H, W] to features [B, F], each sample on its own.
        images: [B, C, H, W].
        probes: number of tangents.
        draws: of the tangents.
    """
    tangents = random_signs(draws, probes, *images.shape).to(images)
    features, seen = _forward(front, images, tangents)
    lengths = seen.square().mean(0).sqrt()
    silent = (features == 0) & (lengths == 0)
    ratios = torch.where(silent, 0.0, lengths / features.abs()).sum(0)
    return torch.where(silent.all(0), inf, ratios)


def random_signs(draws: Stream, *shape: int) -> Tensor:
    """Return independent signs, -1 or 1 with equal chance, int8.

    They are the bits of whole words: one draw for each sign takes as long as a pass through a small network.
    """
    words = draws.integers(-(2**63), 2**63, ceil(prod(shape) / 64))
    bits = (words.view(torch.uint8)[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    return (2 * bits.flatten()[: prod(shape)].view(shape).to(torch.int8)) - 1


def _forward(front: nn.Sequential, values: Tensor, tangents: Tensor) -> tuple[Tensor, Tensor]:
    """Return what comes out of the layers, [B, F], and by how much each tangent moves it, [probes, B, F].

    Values and tangents go through an affine layer in one call: small layers cost more by the call than by the number.
    """
    both = torch.cat([values[None], tangents])
    for layer in front:
        if isinstance(layer, LINEAR):
            both = _affine(layer, both)
        elif type(layer) in SLOPES:
            both[0] = layer(both[0])
            both[1:] *= SLOPES[type(layer)](both[0])
        else:
            both = _by_derivative(layer, both[0], both[1:])
    return both[0], both[1:]


def _affine(layer: nn.Module, both: Tensor) -> Tensor:
    bias = getattr(layer, "bias", None)
    unbiased = {} if bias is None else {"bias": torch.zeros_like(bias)}
    after: Tensor = functional_call(layer, unbiased, (both.flatten(0, 1),)).unflatten(0, both.shape[:2])
    if bias is not None:
        after[0] += bias[:, None, None] if isinstance(layer, nn.Conv2d) else bias
    return after


def _by_derivative(layer: nn.Module, values: Tensor, tangents: Tensor) -> Tensor:
    # a dual number of a view takes the memory of all that the view is of
    own = values.clone()
    moved = vmap(lambda tangent: jvp(layer, (own,), (tangent,))[1])(tangents)
    return torch.cat([layer(values)[None], moved])


def _before(network: nn.Sequential, layer: str) -> nn.Sequential:
    return network[: [name for name, _ in network.named_children()].index(layer)]


PLUGIN = SoteriaProbes
