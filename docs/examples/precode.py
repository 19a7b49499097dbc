"""PRECODE: a variational bottleneck between features and head, drawn anew in every step.

Paper: Daniel Scheliga, Patrick Mäder, Marco Seeland, "PRECODE - A Generic Model Extension to Prevent Deep Gradient
Leakage", WACV 2022.

Taken over: before the last layer the features are encoded as the mean and the variance of a normal code, a code is
drawn, and decoded to features again; the loss has the divergence of the code from N(0, 1) as a term of its own. In
evaluation the code is its mean.
Left out: the paper's networks and their training; the code is narrower than there, as these networks are; the layers
have torch's initial weights.

Expect: the draw is unknown to the server and enters the gradient of all layers. But the bottleneck begins with an
affine layer, whose gradients give its input away for one image (the quotient of weight and bias): the features. And a
network that itself begins with an affine layer, such as the MLP, gives the image away before any bottleneck.

The hook ``network`` is given the network with the server's weights and returns the one that all train in its place;
``penalty`` is asked after each pass in training state and returns what is added to the loss.
"""

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leaklab import Defense


@dataclass(frozen=True)
class Precode(Defense):
    """Put a bottleneck before the last layer.

    Attributes:
        width: numbers in a code.
        weight: of the code's divergence from N(0, 1) in the loss.
    """

    width: int = 64
    weight: float = 1e-3

    def network(self, network: nn.Sequential) -> nn.Sequential:
        """Return the network with encoder, draw and decoder before its last layer."""
        *features, (name, head) = network.named_children()
        layers = [
            *features,
            ("encoder", nn.Linear(head.in_features, 2 * self.width)),
            ("code", Code()),
            ("decoder", nn.Linear(self.width, head.in_features)),
            (name, head),
        ]
        return nn.Sequential(OrderedDict(layers))

    def penalty(self, network: nn.Sequential) -> Tensor:
        """Return the term of the loss of the batch that the network has just seen."""
        return self.weight * network.code.divergence


class Code(nn.Module):
    """Draws a code in training state, as dropout draws; in evaluation state it is the mean."""

    def forward(self, encoded: Tensor) -> Tensor:
        """[B, 2 width] -> [B, width]."""
        mean, log_variance = encoded.chunk(2, 1)
        if not self.training:
            return mean
        self.divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return mean + (log_variance / 2).exp() * torch.randn_like(mean)
