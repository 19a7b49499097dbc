"""The five small networks that planted mistakes are tried on, with a batch for each."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SAMPLES, CLASSES = 8, 10


class Residual(nn.Module):
    """A residual block with a norm after each convolution."""

    def __init__(self, width: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.one, self.first = nn.Conv2d(width, width, 3, padding=1, bias=False), norm(width)
        self.two, self.second = nn.Conv2d(width, width, 3, padding=1, bias=False), norm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of the input's shape."""
        inner = torch.relu(self.first(self.one(x)))
        return torch.relu(x + self.second(self.two(inner)))


class Transformer(nn.Module):
    """A small vision transformer of one layer, with dropout."""

    def __init__(self, width: int = 16, patch: int = 4, side: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Parameter(0.1 * torch.randn(1, (side // patch) ** 2, width))
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [B, classes]."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.layer(tokens).mean(1))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 24), nn.ReLU(), nn.Linear(24, CLASSES))


def _cnn() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.Tanh(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(108, CLASSES))


def _residual(norm: Callable[[int], nn.Module]) -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3, stride=2, bias=False), norm(8), nn.ReLU(), Residual(8, norm)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


@dataclass(frozen=True)
class Network:
    """One network, the channels of its images, and what is special in its training."""

    build: Callable[[], nn.Module]
    channels: int
    batch_norm: bool = False
    dropout: bool = False


NETWORKS = {
    "MLP": Network(_mlp, 1),
    "CNN": Network(_cnn, 3),
    "residual BN": Network(lambda: _residual(nn.BatchNorm2d), 3, batch_norm=True),
    "residual GN": Network(lambda: _residual(lambda width: nn.GroupNorm(2, width)), 3),
    "transformer": Network(Transformer, 3, dropout=True),
}


def made(name: str, seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network with its first weights, images [8, C, 12, 12] on [0, 1] and labels [8]."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # layers draw their first weights from it alone; it is put back
        network = NETWORKS[name]
        model = network.build()
        images = torch.rand(SAMPLES, network.channels, 12, 12)
        images = (images + images.flip(2).roll(1, 2) * torch.linspace(0, 1, 12)) / 2
        return model, images, torch.randperm(CLASSES)[:SAMPLES] % 7
