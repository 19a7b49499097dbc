"""Which form of a network trains fastest, and what all forms have in common."""

from collections.abc import Collection, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.forms.dense import DenseNetwork, is_dense
from leaklab.federated.forms.one_by_one import OneByOne
from leaklab.federated.forms.plain_cnn import PlainCnn, is_plain_cnn
from leaklab.federated.forms.stacked import StackedNetwork, can_be_stacked
from leaklab.federated.optimizers import Weights
from leaklab.models.base import Shape

CPU = torch.device("cpu")

# models per pass: on CPUs more parameters, or the activations of more convolutional models, fall out of the cache
CPU_PARAMETERS, CPU_CONVOLUTIONAL, GPU_CHUNK = 1_000_000, 6, 1024


class TrainableNetwork(Protocol):
    """M models of one architecture; it holds no weights.

    Attributes:
        dropouts: dropout layers by name, whose masks are given from outside.
        buffers: names of running statistics, which are averaged like weights but have no gradient.
    """

    @property
    def dropouts(self) -> Mapping[str, DropoutSite]: ...  # noqa: D102 - see above

    @property
    def buffers(self) -> tuple[str, ...]: ...  # noqa: D102 - see above

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B] for images [G, B, C, H, W]."""
        ...

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses [M] and the gradients by name, [M, ...], of the ``wanted`` parameters; None: of all."""
        ...


def trainable(
    network: nn.Sequential,
    input_shape: Shape,
    device: torch.device = CPU,
    training: bool = True,
    frozen: Mapping[str, Tensor] | None = None,
) -> TrainableNetwork:
    """Return the form that was measured to be fastest on the device.

    Written out for affine layers and, on CPUs, for plain convolutional networks; stacked for other small networks; else
    one model at a time.

    Args:
        network: a new one; it may lose its weights.
        input_shape: (C, H, W).
        device: on which it will train.
        training: whether normalization layers use the batch, as in training, or their running statistics.
        frozen: tensors that all models share and that never move, on the device; the form's weights are the others.

    Raises:
        UserError: a network that no form can train.
    """
    if frozen:
        return OneByOne(network, training, frozen)
    if is_dense(network):
        return DenseNetwork(network, input_shape)
    if device.type == "cpu" and is_plain_cnn(network):
        return PlainCnn(network)
    if can_be_stacked(network):
        return StackedNetwork(network, input_shape)
    return OneByOne(network, training)


def default_chunk(network: nn.Sequential, form: TrainableNetwork, device: torch.device) -> int:
    """Return how many models train together on a device; ``form`` is what ``trainable`` chose for ``network``."""
    if isinstance(form, OneByOne):
        return 1
    if device.type == "cuda":
        return GPU_CHUNK
    fitting = max(1, CPU_PARAMETERS // sum(parameter.numel() for parameter in network.parameters()))
    return min(fitting, CPU_CONVOLUTIONAL) if any(isinstance(layer, nn.Conv2d) for layer in network) else fitting
