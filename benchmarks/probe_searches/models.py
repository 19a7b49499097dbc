"""Models of kinds that the house has no formulas for, as somebody else would write them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Norm = Callable[[int], nn.Module]


def mlp() -> nn.Module:
    """784-64-10 with ReLU."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn(act: type[nn.Module] = nn.Sigmoid) -> nn.Sequential:
    """LeNet of DLG's form: three convolutions of 12 filters and a layer."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, 2, 2), act(), nn.Conv2d(12, 12, 5, 2, 2), act(), nn.Conv2d(12, 12, 5, 1, 2), act(),
        nn.Flatten(), nn.Linear(588, 10),
    )  # fmt: skip


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels: int, norm: Norm) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, 1, 1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([norm(channels), norm(channels)])

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> the same shape."""
        inner = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(x + inner)


def residual(norm: Norm = nn.BatchNorm2d, *, averaged: bool = False) -> nn.Module:
    """A stem, a residual block and a layer, of all positions or of their mean."""
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    flat = (nn.Flatten(), nn.Linear(3136, 10))
    stem = nn.Conv2d(1, 16, 3, 2, 1, bias=False)
    return nn.Sequential(stem, norm(16), nn.ReLU(), Block(16, norm), *(head if averaged else flat))


def grouped(channels: int) -> nn.Module:
    """Group normalisation in groups of four."""
    return nn.GroupNorm(channels // 4, channels)


class TwoOutputs(nn.Module):
    """Digits, and whether they are odd."""

    def __init__(self) -> None:
        super().__init__()
        self.body = cnn()[:-1]
        self.digit, self.odd = nn.Linear(588, 10), nn.Linear(588, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1, 28, 28] -> two kinds of logits."""
        body = self.body(x)
        return self.digit(body), self.odd(body)


def of_both(output: Any, targets: Tensor) -> Tensor:
    """Loss of two outputs."""
    return F.cross_entropy(output[0], targets) + F.cross_entropy(output[1], targets % 2)


class Tied(nn.Module):
    """An encoder whose transpose decodes."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.head = nn.Linear(784, 64, bias=False), nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 1, 28, 28] -> logits."""
        return self.head(F.linear(torch.sigmoid(self.encode(x.flatten(1))), self.encode.weight.T))


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter."""

    def __init__(self, given: int, made: int, rank: int = 8) -> None:
        super().__init__()
        self.base = nn.Linear(given, made).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, given) / given**0.5)
        self.up = nn.Parameter(0.1 * torch.randn(made, rank))

    def forward(self, x: Tensor) -> Tensor:
        """[B, given] -> [B, made]."""
        out: Tensor = self.base(x) + x @ self.down.T @ self.up.T
        return out


def adapted() -> nn.Module:
    """Three frozen layers, of which the adapters are trained."""
    layers = Adapted(784, 64), nn.Sigmoid(), Adapted(64, 32), nn.Sigmoid(), Adapted(32, 10)
    return nn.Sequential(nn.Flatten(), *layers)


class Transformer(nn.Module):
    """A small vision transformer: patches of 4, width 32, two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 32, 4, 4)
        self.places, self.first = nn.Parameter(0.02 * torch.randn(1, 50, 32)), nn.Parameter(torch.zeros(1, 1, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        """[B, 1, 28, 28] -> logits."""
        patches = self.patch(x).flatten(2).transpose(1, 2)
        every = torch.cat([self.first.expand(len(x), -1, -1), patches], 1) + self.places
        logits: Tensor = self.head(self.layers(every)[:, 0])
        return logits


class Rows(nn.Module):
    """An LSTM over the rows of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(28, 48, batch_first=True), nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 1, 28, 28] -> logits."""
        logits: Tensor = self.head(self.lstm(x[:, 0])[0][:, -1])
        return logits


def one_hot(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """Return a loss of labels, from one of their one-hot vectors."""
    return lambda output, labels: loss(output, F.one_hot(labels, output.shape[1]).to(output))


def regression() -> nn.Module:
    """Ten measurements of a patient to one number."""
    return nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))


def resnet18() -> nn.Module:
    """ResNet-18 of torchvision for ten classes."""
    from torchvision.models import resnet18  # slow to import

    model: nn.Module = resnet18(num_classes=10)
    return model
