"""Pictures by gradient matching with softened, granted or ordinary ReLUs."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.pooling.picture import GaussianPrior

MATCHED, STEPS, HISTORY = (4e-3, 4e-4, 4e-5, 1e-5), 40, 40
"""Errors that a search allows for, from stage to stage, relative to the gradient; steps of each."""
SOFTNESS = 25.0
"""Of a softened ReLU, by unit of the width: 1 / beta."""
BOX = 100.0
"""Weight of leaving [0, 1]."""


def narrowed(
    misfit: Callable[[Tensor, float], Tensor], prior: GaussianPrior, start: Tensor, widths: tuple[float, ...] = MATCHED
) -> Tensor:
    """Return the latents that make a misfit [M], given picture and width, small beside the prior."""
    latents = start.clone().requires_grad_()
    for width in widths:
        search = torch.optim.LBFGS([latents], max_iter=STEPS, history_size=HISTORY, line_search_fn="strong_wolfe")

        def loss(search: torch.optim.LBFGS = search, width: float = width) -> float:
            search.zero_grad()
            picture = prior.mean + prior.factor @ latents
            outside = prior.outside(picture).square().sum()
            value = misfit(picture, width).square().sum() / width**2 / 2 + latents.square().sum() / 2 + BOX * outside
            value.backward()
            return float(value.detach())

        search.step(loss)
    return latents.detach()


def gated(network: nn.Module, gate: "Gate") -> None:
    """Put one gate in place of all ReLUs of a network."""
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, gate)


class Gate(nn.Module):
    """The ReLUs of a network, in the order of their calls: hard, softened, or with masks that are granted."""

    def __init__(self) -> None:
        super().__init__()
        self.softness, self.granted, self.seen = 0.0, list[Tensor | None](), list[Tensor]()

    def forward(self, values: Tensor) -> Tensor:
        """Return the values where the gate is open."""
        own = self.granted[len(self.seen)] if self.granted else None
        self.seen.append(values)
        if own is not None:
            return values * own
        return F.softplus(values, 1 / self.softness) if self.softness else F.relu(values)


class Matching:
    """How far the gradient of a picture is from the observed one, relative to it."""

    def __init__(
        self, network: nn.Sequential, gradients: dict[str, Tensor], label: int, shape: tuple[int, ...]
    ) -> None:
        self.network, self.gate, self.shape = deepcopy(network).requires_grad_(), Gate(), shape
        gated(self.network, self.gate)
        self.observed, self.label = torch.cat([one.flatten() for one in gradients.values()]), torch.tensor([label])
        self.soft, self.features, bias = False, None, gradients["fc.bias"]
        self.read = bias @ gradients["fc.weight"] / bias.square().sum()

    def masks(self, picture: Tensor) -> list[Tensor]:
        """Return which cells are on, from the first ReLU to the last."""
        self.gate.seen = []
        self.network(picture.view(1, *self.shape))
        return [one > 0 for one in self.gate.seen]

    def __call__(self, picture: Tensor, width: float = 0.0) -> Tensor:
        """Return the relative misfit; ReLUs are as soft as the width is, if they are to be softened."""
        self.gate.seen, self.gate.softness = [], SOFTNESS * width if self.soft and width > min(MATCHED) else 0.0
        features = self.network[:-1](picture.view(1, *self.shape))
        loss = F.cross_entropy(self.network.fc(features), self.label)
        made = torch.autograd.grad(loss, list(self.network.parameters()), create_graph=True)
        rest = (torch.cat([one.flatten() for one in made]) - self.observed) / self.observed.norm()
        if self.features is None:
            return rest
        return torch.cat([rest, self.features * (features[0] - self.read) / self.read.norm()])

    def loss(self, picture: Tensor) -> float:
        """Return the squared misfit of the network as it is."""
        own, self.gate.granted = (self.gate.granted, self.features, self.soft), []
        self.features, self.soft = None, False
        value = float(self(picture).detach().square().sum())
        self.gate.granted, self.features, self.soft = own
        return value
