"""Read images out of the bins of an imprinted first layer: no search, any factor on the update.

A server of kind ``imprint`` (``observations/servers/base.py``) has sent a first layer whose units measure the same
h(x) and answer above growing cuts q_k. Samples between q_k and q_k+1 alone make up the difference of the two units'
updates, and for a single sample x it is d (x, 1) with a number d: x is the quotient. A bin with several samples gives a
mixture of them, and samples below q_1 wake nobody.

Source: "Robbing the Fed: Directly Obtaining Private Data in Federated Learning with Modified Models" (Fowl et al.
2022), section 4.1.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Attack, Case, Reconstruction, victim
from leaklab.attacks.reconstructions import NO_LABEL, read_off
from leaklab.models.normalisation import unnormalised
from leaklab.observations.base import Observation
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.records.bounds import NonNegative
from leaklab.records.errors import UserError
from leaklab.records.traits import AttackTraits


@dataclass(frozen=True)
class ImprintReading:
    """Take the B bins with the largest answers; the labels are not read.

    Attributes:
        empty: a bin whose answer is at most this share of the largest one of the layer holds nobody.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(update_seconds=3e-4)

    requirements: ClassVar[Requirements] = Requirements(facts=(*SAMPLES, "server", "data_statistics"), searches=False)

    empty: NonNegative = 1e-9

    def reconstruct(self, case: Case) -> Reconstruction:
        """Read every batch without spending the budget; places for which there is no bin are not numbers.

        Raises:
            UserError: facts are withheld, or the first layer is not imprinted.
        """
        observation = case.observation
        network = victim(observation, case.knowledge, "imprint")
        batch, *shape = case.shape("imprint")
        inputs, sizes = _bins(*_first_layer(network, observation))
        full = sizes > self.empty * sizes.amax(1, keepdim=True)
        inputs = inputs.masked_fill(~full[..., None], torch.nan)
        # with fewer units than samples the last places stay empty
        first = sizes.masked_fill(~full, -1).argsort(1, descending=True)[:, :batch]
        found = inputs.new_full((len(inputs), batch, inputs.shape[2]), torch.nan)
        found[:, : first.shape[1]] = inputs.gather(1, first[..., None].expand(-1, -1, inputs.shape[2]))
        images = unnormalised(network, found.view(*found.shape[:2], *shape))
        unread = torch.full((len(images), batch), NO_LABEL, device=images.device)
        return read_off(observation, images, unread)


def _bins(weight: Tensor, bias: Tensor, cuts: Tensor) -> tuple[Tensor, Tensor]:
    """Return what each bin holds, [T, K, I], and the size of its answer, [T, K].

    Args:
        weight: [T, K, I] update of the first layer.
        bias: [T, K].
        cuts: q_k, [K].
    """
    order = cuts.argsort()
    rows, answers = (nn.functional.pad(part[:, order], pad) for part, pad in ((weight, (0, 0, 0, 1)), (bias, (0, 1))))
    answers = answers.diff(dim=1)
    return rows.diff(dim=1) / answers[..., None], answers.abs()


def _first_layer(network: nn.Sequential, observation: Observation) -> tuple[Tensor, Tensor, Tensor]:
    """Return the updates of the first layer, [T, K, I] and [T, K], and its cuts."""
    first = next(layer for layer in network if next(layer.parameters(), None) is not None)
    weight, bias = list(observation.weights)[:2]
    if not isinstance(first, nn.Linear) or not bool((first.weight == first.weight[:1]).all()):
        raise UserError("attack 'imprint' reads a first layer that a server imprinted: set server: imprint")
    if not {weight, bias} <= set(observation.update):
        raise UserError("attack 'imprint': the client keeps its first layer to itself: choose another defense")
    return observation.update[weight], observation.update[bias], -observation.weights[bias]


PLUGIN: type[Attack] = ImprintReading
