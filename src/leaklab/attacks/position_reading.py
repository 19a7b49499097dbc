"""Read the image that a vision transformer saw, patch by patch, from the gradient of its position embedding.

A position is added to a token, so its gradient is the derivative d_p of the token. The patches share one affine layer,
whose gradient is G = sum_p d_p x_p'. With the d_p known, the patches x_p solve a linear system, and they are its only
solution if no d_p is a sum of the others: no search, no label. Both sides add up over local steps on the same image, so
hidden rates, one per step, are in both and change nothing.

Source of the idea: "APRIL: Finding the Achilles' Heel on Privacy for Vision Transformers" (Lu et al. 2022). Its closed
form reads the input of the first attention by the same gradient, and needs a transformer without a norm in between; one
layer earlier there is no norm.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.base import Attack, Case, Reconstruction, victim
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.reconstructions import read_off
from leaklab.models.normalisation import unnormalised
from leaklab.models.vit import PatchEmbedding, Tokens
from leaklab.observations.base import Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.observations.requirements import check_batch
from leaklab.records import tensor_algebra
from leaklab.records.bounds import NonNegative
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class PositionReading:
    """Solve for the patches by least squares; exact for one sample and any rates.

    Several local steps may be behind the update, if they were on the same image and without weight decay, which would
    add what is not of this form.

    Attributes:
        label_rule: see ``labels.fixed_labels``.
        doubt: how many standard deviations of what the equations leave over weigh as much as one of the patches (unit
            variance). There are more equations than unknowns, so rounding, noise and other samples show in what is left
            over; directions in which they are larger than the d_p are shrunk towards 0. What lies within the span of
            the d_p does not show, hence more than 1.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES, facts_when={"label_rule": KNOWN_LABELS}, largest_batch=1, searches=False
    )

    label_rule: str = "bias"
    doubt: NonNegative = 3.0

    def reconstruct(self, case: Case) -> Reconstruction:
        """Read every image without spending the budget.

        Raises:
            UserError: facts are withheld, there are several samples per update, the network is no transformer with
                learned positions, or it has more patches than its tokens are wide.
        """
        observation, knowledge = case.observation, case.knowledge
        batch, *shape = case.shape("position-reading")
        check_batch("position-reading", batch)
        network = victim(observation, knowledge, "position-reading")
        embedding, gradient, derivatives = _embedding(network, observation)
        patches = _patches(gradient, derivatives, self.doubt)
        images = _reduced(_assembled(patches, embedding.proj, _seen(network, tuple(shape))), tuple(shape))
        images = unnormalised(network, images[:, None].to(observation.like.dtype))
        labels = fixed_labels("position-reading", self.label_rule, observation, knowledge, case.distance)
        return read_off(observation, images, labels)


def _embedding(network: nn.Sequential, observation: Observation) -> tuple[PatchEmbedding, Tensor, Tensor]:
    """Return the patches' layer, its update [T, width, I] and that of the patches' positions [T, P, width], float64."""
    named = list(network.named_children())
    found = next(((name, layer) for name, layer in named if isinstance(layer, PatchEmbedding)), None)
    tokens = next((name for name, layer in named if isinstance(layer, Tokens)), None)
    needed = [f"{found[0]}.proj.weight", f"{tokens}.pos_embed"] if found and tokens else []
    if not found or not needed or not set(needed) <= set(observation.update):
        raise UserError(
            "attack 'position-reading' needs the updates of a vision transformer's patches and learned positions: "
            "choose another attack"
        )
    weight, positions = (observation.update[name].double() for name in needed)
    derivatives = positions[:, 0, 1:]  # without the class token's
    patches, width = derivatives.shape[1:]
    if patches > width:
        raise UserError(
            f"attack 'position-reading' cannot tell {patches} patches apart by tokens of width {width}: "
            "choose another attack"
        )
    return found[1], weight.flatten(2), derivatives


def _patches(gradient: Tensor, derivatives: Tensor, doubt: float) -> Tensor:
    """Return x [T, P, I] of G = sum_p d_p x_p' by ridge regression; G [T, width, I], d [T, P, width]."""
    left, sizes, right = tensor_algebra.svd(derivatives.mT)
    seen = left.mT @ gradient
    over = (gradient - left @ seen).square().sum((1, 2), keepdim=True)
    surplus = (gradient.shape[1] - sizes.shape[1]) * gradient.shape[2]
    sizes = sizes[..., None]
    weight = doubt**2 * over / max(surplus, 1)
    # without anything left over no direction is shrunk, and one that is not there at all stays 0
    shrunk = sizes / (sizes.square() + weight)
    patches: Tensor = right.mT @ (shrunk.nan_to_num(0.0, 0.0, 0.0) * seen)
    return patches


def _seen(network: nn.Sequential, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return [C, H, W] of what the patches' layer sees."""
    resize = next((layer for layer in network if isinstance(layer, nn.Upsample)), None)
    return (shape[0], *resize.size) if resize else tuple(shape)  # type: ignore[misc]


def _assembled(patches: Tensor, layer: nn.Conv2d, shape: tuple[int, ...]) -> Tensor:
    """Return images [T, C, H, W] of patches [T, P, I] that stand row by row."""
    return F.fold(patches.mT, shape[1:], layer.kernel_size, stride=layer.stride)


def _reduced(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo the enlargement in front of the patches, by least squares; it is linear in rows and in columns."""
    if tuple(images.shape[1:]) == tuple(shape):
        return images
    rows, columns = (_shrinking(now, to).to(images) for now, to in zip(images.shape[2:], shape[1:], strict=True))
    return rows @ images @ columns.mT


def _shrinking(side: int, original: int) -> Tensor:
    """Return the left inverse [original, side] of linear interpolation from ``original`` to ``side`` places."""
    unit = torch.eye(original, dtype=torch.float64)[:, None]
    enlarging = F.interpolate(unit, size=side, mode="linear")[:, 0].T
    inverse: Tensor = tensor_algebra.pseudo_inverse(enlarging)
    return inverse


PLUGIN: type[Attack] = PositionReading
