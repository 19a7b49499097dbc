"""Masked sums: the server sees what several clients send only as their sum, each with a hidden rate if it wants.

Source: "Practical Secure Aggregation for Privacy-Preserving Machine Learning"; LRP, section 4.3, whose clients add up
their models in this way.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.per_sample import sample_gradients
from leaklab.records.bounds import Count, Flag
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class MaskedSum(Defense):
    """Spread the batch over K clients in equal parts, and send the mean of their one step's gradients.

    A batch stands for the images of all K clients, and an update for their sum over K: what masks leave to the server.
    With perturbed rates the gradient of client k has the factor r_k / rate, r_k drawn from U(0, 2 rate) as under LRP.
    Sums of several local steps are no function of the mean weights, so there is one.

    Attributes:
        clients: K; it divides the batch.
        perturbed: whether each client draws its rate.
    """

    clients: Count = 2
    perturbed: Flag = True

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the mean of the clients' gradients, each times the factor on its rate.

        Raises:
            UserError: a second local step, no batch, or one that does not go to the clients in equal parts.
        """
        samples = len(context.batch["labels"]) if context.batch else 0
        if context.step:
            raise UserError("defense masked-sum adds up one local step of each client: set local_steps: 1")
        if not samples or samples % self.clients:
            raise UserError(
                f"defense masked-sum: {samples} samples do not go to {self.clients} clients in equal parts: set "
                "batch_size to a multiple"
            )
        if not self.perturbed:
            return gradients
        factors = torch.tensor([context.stream(f"rate of client {k}").number() * 2 for k in range(self.clients)])
        weights = factors.double().repeat_interleave(samples // self.clients) / samples
        each = sample_gradients(context.network(), context.batch, list(gradients))
        return {
            name: (weights.to(each[name]) @ each[name]).view_as(value).to(value) for name, value in gradients.items()
        }

    def neutral(self) -> bool:
        """Whether no rate is perturbed: then the sum alone hides, and that is in the batch that stands for it."""
        return not self.perturbed


PLUGIN = MaskedSum
