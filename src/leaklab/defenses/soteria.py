"""Soteria: columns of the last affine layer's gradient that say too much about the input are left out.

Source: "Soteria: Provable Defense against Privacy Leakage in Federated Learning from Representation Perspective"; LRP
table 3 (rate 0.8), OUTPOST table III (rate 0.5).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.defenses.lrp import last_affine
from leaklab.defenses.outpost import dropped_count
from leaklab.records.bounds import OpenShare
from leaklab.records.errors import UserError
from leaklab.records.traits import DefenseTraits

# The mask of Soteria: which features of the last affine layer say too much about the input.

TOGETHER = 128
"""Backward passes (features times samples) that are in memory at once."""


def soteria_mask(network: nn.Sequential, images: Tensor, layer: str, pruned: float) -> Tensor:
    """Return which columns of the layer's weight gradient are to be zeroed: bool [F], true where pruned.

    The features r are the layer's input. Pruned are the floor(pruned * F) features with the smallest ratio, in the
    order of their index where ratios are equal; see ``sensitivity_ratios`` for the ratio and for dead features.

    Args:
        network: in evaluation state, so that samples do not mix and nothing is drawn.
        images: [B, C, H, W] as the network takes them.
        layer: name of its last affine layer, an ``nn.Linear`` directly in the network.
        pruned: rho, the share of the features, between 0 and 1.

    Raises:
        UserError: no such layer, a network in training state, or a share that is out of range or prunes no feature.
    """
    require_between("defense soteria", 0, 1, pruned=pruned)
    ratios = sensitivity_ratios(_before(network, layer), images)
    count = dropped_count(len(ratios), pruned)
    if count == 0:
        raise UserError(f"defense soteria: {pruned} of {len(ratios)} features is none: raise pruned")
    mask = torch.zeros_like(ratios, dtype=torch.bool)
    mask[ratios.argsort(stable=True)[:count]] = True
    return mask


def sensitivity_ratios(features_of: Callable[[Tensor], Tensor], images: Tensor, together: int = TOGETHER) -> Tensor:
    """Return q_i = sum over the batch of ||d r_i / d x|| / |r_i| for every feature: [F].

    The magnitude of r_i is taken, so that features of either sign are ranked alike. A sample in which r_i = 0 without
    reacting to the input (a dead ReLU, 0 / 0) adds nothing; one in which r_i = 0 reacts makes the ratio infinite, its
    limit. A feature that is dead in all samples has no gradient column to prune: its ratio is infinite, so it ranks
    last and never keeps a live feature from being pruned.

    Args:
        features_of: maps images [B, C, H, W] to features [B, F], each sample on its own.
        images: [B, C, H, W].
        together: see ``TOGETHER``; it does not change the result.
    """
    features, lengths = _jacobian_lengths(features_of, images, together)
    silent = (features == 0) & (lengths == 0)
    ratios = torch.where(silent, 0.0, lengths / features.abs()).sum(0)
    return torch.where(silent.all(0), inf, ratios)


@torch.no_grad()
def _jacobian_lengths(features_of: Callable[[Tensor], Tensor], images: Tensor, together: int) -> tuple[Tensor, Tensor]:
    """Return the features and ||d r_i / d x|| of each sample, [B, F] both.

    One backward pass serves all samples, as a sample's features depend on no other; many features go through at once.
    """
    features, pull_back = vjp(features_of, images)[:2]

    def lengths(feature: Tensor) -> Tensor:
        (by_sample,) = pull_back(feature.expand_as(features))
        norms: Tensor = torch.linalg.vector_norm(by_sample.flatten(1), dim=1)
        return norms

    each = torch.eye(features.shape[1], dtype=features.dtype, device=features.device)
    chunk = max(1, together // len(images))
    return features, vmap(lengths, chunk_size=chunk)(each).T


def _before(network: nn.Sequential, layer: str) -> nn.Sequential:
    """Return the part of the network that computes the layer's input."""
    parts = dict(network.named_children())
    affine = [name for name, part in parts.items() if isinstance(part, nn.Linear)]
    if layer not in affine:
        raise UserError(f"defense soteria: the network has no affine layer '{layer}': choose from {', '.join(affine)}")
    if any(part.training for part in network.modules()):
        raise UserError("defense soteria: samples mix in training state: put the network into evaluation state first")
    return network[: list(parts).index(layer)]


@dataclass(frozen=True)
class Soteria(Defense):
    """Zero the columns of the layer's weight gradient that belong to the pruned features, in every local step.

    The other layers' gradients and the layer's bias gradient leave the client as they are. One backward pass per
    feature and step; see ``soteria_mask`` for which features are pruned.

    Attributes:
        pruned: share of the features, in (0, 1].
        layer: name of an affine layer directly in the network; empty for the last one.
    """

    traits: ClassVar[DefenseTraits] = DefenseTraits(step_factor=440.0)

    pruned: OpenShare = 0.8
    layer: str = ""

    def __post_init__(self) -> None:
        require_between("defense soteria", 0, 1, pruned=self.pruned)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with the pruned columns zero.

        Raises:
            UserError: no network at hand, no such layer, or a share that prunes no feature.
        """
        network = context.network()
        layer = self.layer or last_affine(network, "defense soteria")
        mask = soteria_mask(network, context.batch["images"], layer, self.pruned)
        name = f"{layer}.weight"
        return {**gradients, name: gradients[name].masked_fill(mask.to(gradients[name].device), 0.0)}


PLUGIN = Soteria
