"""The layers of BigGAN-deep: normalisation steered by latent and class, bottleneck blocks, self-attention.

Sources: "Large Scale GAN Training for High Fidelity Natural Image Synthesis" (BigGAN), appendix B, the deep variant;
"Self-Attention Generative Adversarial Networks". Attributes are called as in the published weights. Spectral
normalisation only guides the training, so kernels here are the normalised ones (see ``biggan_weights``).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EPSILON = 1e-4
# bottlenecks: a block's 3x3 convolutions see a quarter of its input channels
REDUCTION = 4
# self-attention compares positions by an eighth of the channels and passes on half of them
COMPARED, PASSED = 8, 2


class ConditionalNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * (1 + S c) + O c, for the condition c and stored statistics.

    The statistics are never those of a batch, so that each image is made alone.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, condition: int) -> None:
        """Make S (``scale``) and O (``offset``) for conditions of ``condition`` numbers."""
        super().__init__()
        self.scale = nn.Linear(condition, channels, bias=False)
        self.offset = nn.Linear(condition, channels, bias=False)
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, values: Tensor, condition: Tensor) -> Tensor:
        """[N, C, H, W], [N, condition] -> [N, C, H, W]."""
        factor: Tensor = (1 + self.scale(condition)) * (self.running_var + EPSILON).rsqrt()
        shift: Tensor = self.offset(condition) - factor * self.running_mean
        return values * factor[:, :, None, None] + shift[:, :, None, None]


class Block(nn.Module):
    """A residual bottleneck of convolutions 1x1, 3x3, 3x3, 1x1, each after a normalisation and a ReLU.

    The shortcut has no parameters: it keeps the first channels, and repeats pixels where the block doubles the sides.
    """

    def __init__(self, inputs: int, outputs: int, condition: int, doubles: bool) -> None:
        """Make the layers from ``inputs`` to ``outputs`` channels; ``doubles`` the sides or keeps them."""
        super().__init__()
        self.outputs, self.doubles = outputs, doubles
        inner = inputs // REDUCTION
        self.bn_0 = ConditionalNorm(inputs, condition)
        self.conv_0 = nn.Conv2d(inputs, inner, 1)
        self.bn_1 = ConditionalNorm(inner, condition)
        self.conv_1 = nn.Conv2d(inner, inner, 3, padding=1)
        self.bn_2 = ConditionalNorm(inner, condition)
        self.conv_2 = nn.Conv2d(inner, inner, 3, padding=1)
        self.bn_3 = ConditionalNorm(inner, condition)
        self.conv_3 = nn.Conv2d(inner, outputs, 1)

    def forward(self, values: Tensor, condition: Tensor) -> Tensor:
        """[N, inputs, H, W], [N, condition] -> [N, outputs, H, W], or twice as high and wide."""
        inner = self.conv_0(F.relu(self.bn_0(values, condition)))
        inner = self.conv_1(self._grown(F.relu(self.bn_1(inner, condition))))
        inner = self.conv_2(F.relu(self.bn_2(inner, condition)))
        change: Tensor = self.conv_3(F.relu(self.bn_3(inner, condition)))
        return change + self._grown(values[:, : self.outputs])

    def _grown(self, values: Tensor) -> Tensor:
        return F.interpolate(values, scale_factor=2, mode="nearest") if self.doubles else values


class SelfAttention(nn.Module):
    """x + gamma * O(attention): every position reads from a map of half the sides."""

    def __init__(self, channels: int) -> None:
        """Make the four 1x1 convolutions (query, key, value, output) and gamma."""
        super().__init__()
        self.snconv1x1_theta = nn.Conv2d(channels, channels // COMPARED, 1, bias=False)
        self.snconv1x1_phi = nn.Conv2d(channels, channels // COMPARED, 1, bias=False)
        self.snconv1x1_g = nn.Conv2d(channels, channels // PASSED, 1, bias=False)
        self.snconv1x1_o_conv = nn.Conv2d(channels // PASSED, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, values: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C, H, W], sides even."""
        queries = self.snconv1x1_theta(values).flatten(2)
        keys = F.max_pool2d(self.snconv1x1_phi(values), 2).flatten(2)
        contents = F.max_pool2d(self.snconv1x1_g(values), 2).flatten(2)
        shares = (queries.transpose(1, 2) @ keys).softmax(2)
        read = (contents @ shares.transpose(1, 2)).unflatten(2, values.shape[2:])
        change: Tensor = self.gamma * self.snconv1x1_o_conv(read)
        return values + change
