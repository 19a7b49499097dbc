"""Gradient compression: only the largest entries of each tensor leave the client.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", table 3, baseline
"gradient compression"; the magnitudes are those of one step, without the memory of "Deep Gradient Compression".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.records.bounds import OpenShare


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


# a product like 0.29 * 100 falls short of its decimal value by less than this
ROUNDING = 1e-6

PLUGIN = GradientCompression
