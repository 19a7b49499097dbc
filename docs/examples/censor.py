"""CENSOR: what is sent is orthogonal to the gradient, in every layer, and as long as it.

Paper: Kaiyuan Zhang, Siyuan Cheng, Guangyu Shen, Bruno Ribeiro, Shengwei An, Pin-Yu Chen, Xiangyu Zhang, Ninghui Li,
"CENSOR: Defense Against Gradient Inversion via Orthogonal Subspace Bayesian Sampling", NDSS 2025.

Taken over: several random directions, each orthogonal to the gradient in each tensor and as long as it there; each is
tried as a step on the client's own batch, and the one that leaves the lowest loss is sent.
Left out: the temperature of the paper's posterior (the best trial is taken), and that it is meant for networks much
larger than those here; a tensor of one entry has nothing orthogonal, and zero is sent of it.

Expect: an attacker who looks for the gradient's direction finds nothing. What is sent still tells, of each tensor, the
length of its gradient and one direction that it does not have, exactly: some numbers of the image, the more tensors
the more of them, and with a prior they go far. What the word does not show is the price: to first order a step along
what is sent lowers the loss by nothing at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from leaklab import ClientContext, Defense

Gradients = Mapping[str, Tensor]


@dataclass(frozen=True)
class Censor(Defense):
    """Send the best of ``trials`` random steps that are orthogonal to the gradient."""

    trials: int = 6

    def gradient(self, gradients: Gradients, context: ClientContext) -> Gradients:
        """Return the trial whose step leaves the lowest loss on the batch."""
        draws = context.stream("censor")
        trials = [
            {name: orthogonal(value, draws.normal(*value.shape)) for name, value in gradients.items()}
            for _ in range(self.trials)
        ]
        network = context.network()
        losses = [loss_after(one, network, context) for one in trials]
        return trials[losses.index(min(losses))]


def orthogonal(gradient: Tensor, drawn: Tensor) -> Tensor:
    """Return the part of ``drawn`` that is orthogonal to the gradient, as long as the gradient."""
    # in float64: in float32 the squares of small numbers are zero
    length = gradient.double().norm()
    if not length:
        return gradient
    along = gradient.double() / length
    across = drawn.double()
    for _ in range(2):  # the second time takes away what rounding left
        across = across - (across * along).sum() * along
    return (across * (length / across.norm())).to(gradient) if gradient.numel() > 1 else torch.zeros_like(gradient)


def loss_after(step: Gradients, network: nn.Module, context: ClientContext) -> float:
    """Return the loss of the client's batch after a step."""
    weights = {name: value - context.scaled_rate * step[name] for name, value in context.weights.items()}
    with torch.no_grad():
        logits = functional_call(network, weights, (context.batch["images"],))
    loss = float(F.cross_entropy(logits, context.batch["labels"]))
    return loss if loss == loss else float("inf")  # a step too long to have a loss is the worst
