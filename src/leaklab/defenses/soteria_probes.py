"""Soteria within training: the lengths of all features' gradients estimated at once, from a few forward tangents.

Exact Soteria costs one backward pass per feature and step. For probes v of independent random signs,
E[(J v)_i^2] = |d r_i / d x|^2, so one forward pass with a tangent estimates the lengths of all features together.
Source of the defense: see ``soteria_mask``; used by OUTPOST figure 3 (rate 0.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vmap

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.gradient_compression import dropped_count
from leaklab.defenses.last_layer import last_affine
from leaklab.defenses.network_of_round import network_of_round
from leaklab.defenses.settings import require_between
from leaklab.records.bounds import Count, OpenShare
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream


@dataclass(frozen=True)
class SoteriaProbes(Defense):
    """Zero the columns of the last affine layer's weight gradient that ``soteria`` would, nearly, in every local step.

    The share of the columns that exact Soteria would choose too grows with the number of probes.

    Attributes:
        pruned: share of the features, between 0 and 1.
        probes: tangents per step; positive.
    """

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
    tangents = (2 * draws.integers(0, 2, probes, *images.shape) - 1).to(images)
    features, seen = _forward(front, images, tangents)
    lengths = seen.square().mean(0).sqrt()
    silent = (features == 0) & (lengths == 0)
    ratios = torch.where(silent, 0.0, lengths / features.abs()).sum(0)
    return torch.where(silent.all(0), inf, ratios)


def _forward(front: nn.Sequential, values: Tensor, tangents: Tensor) -> tuple[Tensor, Tensor]:
    """Return what comes out of the layers, [B, F], and by how much each tangent moves it, [probes, B, F]."""
    for layer in front:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            # a tangent goes through the layer itself, without its bias: one call for all of them
            unbiased = {"bias": torch.zeros_like(layer.bias)} if layer.bias is not None else {}
            moved = functional_call(layer, unbiased, (tangents.flatten(0, 1),))
            values, tangents = layer(values), moved.unflatten(0, (len(tangents), -1))
        else:
            values, tangents = _by_derivative(layer, values, tangents)
    return values, tangents


def _by_derivative(layer: nn.Module, values: Tensor, tangents: Tensor) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor] = vmap(lambda own: jvp(layer, (values,), (own,)), out_dims=(None, 0))(tangents)
    return result


def _before(network: nn.Sequential, layer: str) -> nn.Sequential:
    return network[: [name for name, _ in network.named_children()].index(layer)]


PLUGIN = SoteriaProbes
