"""The attacker who knows about learning rate perturbation: the local rates are unknowns beside the images.

LRP hides E numbers per update and nothing else: each is drawn from U(0, 2 mean). The law is public, but not the mean,
which is the nominal rate times the client's p_k N. So the rates are searched together with the samples, and all that
is assumed of them is that they are positive.

Source: LRP paper, eq. (10); the attacker is ours.
"""

import torch
from torch import Tensor

from leaklab.attacks.delta_matching import DeltaMatching


class JointRates(DeltaMatching):
    """Matching loss for unknown rates: the unknowns of a trial are its images, then E numbers, one per local step.

    A number r of the real line stands for the rate nominal * exp(r), so that 0 stands for the nominal rate, and a
    factor on all rates for the same step in each number.
    """

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels + len(self.rates)

    def local_rates(self, others: Tensor) -> Tensor:
        """Return the rates [S, E] for the unknowns [S, E]."""
        return self.rates.to(others) * torch.exp(others)
