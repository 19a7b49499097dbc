"""Imprint: a first layer whose units answer one after the other as one scalar of the image grows.

Row k of the first affine layer measures the same h(x) for every unit, here the mean of the inputs, with the bias -q_k:
behind a ReLU, unit k answers to samples with h(x) > q_k. The columns of the next layer are made equal, so that a sample
sends the same back to all units that it wakes. Then the updates of neighbouring units differ by the samples between q_k
and q_k+1 alone, and if that is one sample, the quotient of the differences is the sample itself, whatever factor lies
on the update: ``attacks/imprint.py``.

Source: "Robbing the Fed: Directly Obtaining Private Data in Federated Learning with Modified Models" (Fowl et al.
2022), section 4.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.observations.servers.base import Catch, Server, Victims
from leaklab.records.bounds import Positive, Real
from leaklab.records.errors import UserError
from leaklab.records.traits import ServerTraits


@dataclass(frozen=True)
class Imprint:
    """Bins of equal probability, as many as the first layer has units.

    Attributes:
        mean: of h(x), the mean over all inputs of a sample, by the law that the server assumes (a normal one).
        std: its standard deviation.
    """

    traits: ClassVar[ServerTraits] = ServerTraits()

    mean: Real
    std: Positive

    def catch(self, victims: Victims) -> Catch:
        """Query the clients once.

        Raises:
            UserError: the model does not begin with two affine layers.
        """
        names = list(victims.parameters[:3])
        shapes = [victims.state[name].shape for name in names]
        if [len(shape) for shape in shapes] != [2, 1, 2] or shapes[2][1] != shapes[0][0]:
            raise UserError("server 'imprint' needs a network that begins with two affine layers: set model: mlp")
        first, bias, second = (victims.state[name] for name in names)
        units, inputs = first.shape
        changed = {
            names[0]: torch.full_like(first, 1 / inputs),
            names[1]: -self.cuts(units).to(bias),
            names[2]: second.mean(1, keepdim=True).expand_as(second).clone(),
        }
        return Catch(changed, victims.ask(changed), victims.samples, 1)

    def cuts(self, units: int) -> Tensor:
        """Return q_1 < ... < q_K, float64: the quantiles k / (K + 1) of the law."""
        levels = torch.arange(1, units + 1, dtype=torch.float64) / (units + 1)
        cuts: Tensor = self.mean + self.std * torch.special.ndtri(levels)
        return cuts

    def wanted(self, features: Tensor, labels: Tensor, victims: Victims) -> Tensor:
        """Return all samples, [T, B]."""
        return torch.arange(labels.shape[1]).expand_as(labels)


PLUGIN: type[Server] = Imprint
