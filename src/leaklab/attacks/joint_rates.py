"""The attacker who knows about learning rate perturbation: the local rates are unknowns beside the images.

LRP hides E numbers per update and nothing else: each is drawn from U(0, 2 mean), and the law is public. So they are
searched together with the samples, within that interval.

Source: LRP paper, eq. (10); the attacker is ours.
"""

import torch
from torch import Tensor

from leaklab.attacks.delta_matching import DeltaMatching


class JointRates(DeltaMatching):
    """Matching loss for unknown rates: the unknowns of a trial are its images, then E numbers, one per local step.

    A number r of the real line stands for the rate 2 * mean / (1 + exp(-r)), so that 0 stands for the mean. The means
    are ``rates`` of ``DeltaMatching``: what the server prescribes, times what it takes for the client's factor.
    """

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels + len(self.rates)

    def local_rates(self, others: Tensor) -> Tensor:
        """Return the rates [S, E] for the unknowns [S, E]."""
        return 2 * self.rates.to(others) * torch.sigmoid(others)
