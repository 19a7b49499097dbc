"""A text network in local training: token ids in, one model after the other.

``Batch.images`` holds token ids [G, B, L] here, padded at the end. Padding beyond the longest sentence of a group is
cut off before the network sees it, so that a sentence's gradient does not depend on the sentences captured beside it.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from leaklab.data.text.vocabulary import PADDING
from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.optimizers import Weights, leaves_of


class TextNetwork:
    """M models of one architecture of ``models/text``; see ``network.TrainableNetwork``."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network.eval()

    @property
    def dropouts(self) -> Mapping[str, DropoutSite]:
        """None: text networks are built without dropout."""
        return {}

    @property
    def buffers(self) -> tuple[str, ...]:
        """None: there are no running statistics."""
        return ()

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, K, B] for token ids ``images`` [G, B, L]."""
        models = len(next(iter(weights.values())))
        outputs = []
        for model in range(models):
            own = {name: value[model] for name, value in weights.items()}
            outputs.append(self._one(own, images[model * len(images) // models]).T)
        return torch.stack(outputs)

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses [M] (mean cross-entropy over a batch) and the gradients by name, [M, ...]."""
        models, groups = len(next(iter(weights.values()))), len(batch.labels)
        losses, rows = [], []
        for model in range(models):
            group = model * groups // models
            own = {name: value[model] for name, value in weights.items()}
            leaves = leaves_of(own, wanted)
            loss = F.cross_entropy(self._one({**own, **leaves}, batch.images[group]), batch.labels[group])
            rows.append(torch.autograd.grad(loss, list(leaves.values())))
            losses.append(loss.detach())
        stacked = (torch.stack(column) for column in zip(*rows, strict=True))
        return torch.stack(losses), dict(zip(leaves, stacked, strict=True))

    def _one(self, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
        """Return the logits [B, K] of one model for ids [B, L]."""
        mask = ids != PADDING
        length = int(mask.sum(1).max())
        given = {"input_ids": ids[:, :length], "attention_mask": mask[:, :length].to(torch.int64)}
        logits: Tensor = functional_call(self._network, dict(weights), (), given).logits
        return logits
