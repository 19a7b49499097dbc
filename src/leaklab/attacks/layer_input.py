"""The input of an affine layer, read off its gradients.

With derivatives d at its output, one sample's gradients of a layer W x + b are ``dW = d x^T`` and ``db = d``: row j of
the one is entry j of the other times the input. So the input is the least squares solution over all rows, in which a
factor on the update cancels.

Source: "Privacy-Preserving Deep Learning via Additively Homomorphic Encryption", section 3; proposition 3.1 of
"Inverting Gradients".
"""

import torch
from torch import Tensor


def layer_input(weight_update: Tensor, bias_update: Tensor) -> Tensor:
    """Return x = sum_j db_j dW_j / sum_j db_j^2 of each trial: [T, I].

    Exact where one sample alone made these gradients; not finite where all bias gradients are zero.

    Args:
        weight_update: [T, O, I], up to a factor.
        bias_update: [T, O], up to the same factor.
    """
    return torch.einsum("to,toi->ti", bias_update, weight_update) / bias_update.square().sum(1, keepdim=True)
