"""The input of an affine layer, read off its gradients.

With derivatives d at its output, one sample's gradients of a layer W x + b are ``dW = d x^T`` and ``db = d``: row j of
the one is entry j of the other times the input. A factor on the update cancels in the ratio.

Source: "Privacy-Preserving Deep Learning via Additively Homomorphic Encryption", section 3; proposition 3.1 of
"Inverting Gradients".
"""

import torch
from torch import Tensor


def layer_input(weight_update: Tensor, bias_update: Tensor) -> Tensor:
    """Return x = (dW)_j / (db)_j of each trial, with the j of the largest bias gradient: [T, I].

    Exact where one sample alone made these gradients; not finite where all bias gradients are zero.

    Args:
        weight_update: [T, O, I], up to a factor.
        bias_update: [T, O], up to the same factor.
    """
    largest = bias_update.abs().argmax(1)
    rows = torch.arange(len(bias_update), device=bias_update.device)
    return weight_update[rows, largest] / bias_update[rows, largest, None]
