"""Gradient clipping: the whole gradient is shortened to a bound.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", table 3, baseline
"gradient clipping".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.settings import require_between
from leaklab.records.bounds import Positive


@dataclass(frozen=True)
class GradientClipping(Defense):
    """Divide the gradient by max(1, ||g|| / bound), with one norm over all parameters.

    It hides the length of a long gradient and nothing else; see ``attacks/adaptive/clip_emulation.py``. A gradient
    within the bound leaves as it is.

    Attributes:
        bound: S, the largest L2 norm that leaves the client; positive.
    """

    bound: Positive = 4.0

    def __post_init__(self) -> None:
        require_between("defense gradient-clipping", 0, inf, bound=self.bound)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient, not longer than the bound."""
        norms = [torch.linalg.vector_norm(value, dtype=torch.float64) for value in gradients.values()]
        divisor = (torch.linalg.vector_norm(torch.stack(norms)) / self.bound).clamp(min=1)
        return {name: value / divisor for name, value in gradients.items()}


PLUGIN = GradientClipping
