"""How much the gradient of each tensor says about the images: the measure by which GradDefense slices a gradient.

Source: "Protect Privacy from Gradient Leakage Attack in Federated Learning" (GradDefense).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sensitivities(network: nn.Sequential, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the mean over samples of |d (sum of the entries of the loss's gradient in w) / d x|_F by parameter w.

    It is 0 for the last affine layer, weight and bias: the slopes of a cross-entropy by its logits sum up to 0 whatever
    the image is. So GradDefense has that whole layer in one slice.

    Samples do not mix in evaluation state, so a second backward pass per parameter serves all of them.

    Args:
        network: in evaluation state.
        images: the root set, [B, C, H, W] as the network takes them.
        labels: [B].
    """
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        loss = F.cross_entropy(network(inputs), labels, reduction="sum")
        names, parameters = zip(*network.named_parameters(), strict=True)
        slopes = torch.autograd.grad(loss, parameters, create_graph=True)
        by_image = [torch.autograd.grad(slope.sum(), inputs, retain_graph=True)[0] for slope in slopes]
    return {name: float(own.flatten(1).norm(dim=1).mean()) for name, own in zip(names, by_image, strict=True)}
