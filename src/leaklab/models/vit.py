"""Vision transformer ("An Image is Worth 16x16 Words", section 3.1), from plain modules.

Attention is written out as matrix products and a softmax: ``torch.func`` maps it over clients and trials, and it can be
differentiated twice, which fused kernels cannot. Layers have timm's names, as far as a sequence of layers has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from leaklab.models.base import Architecture, Shape
from leaklab.models.published import initialise
from leaklab.records.bounds import Count, Natural
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream
from leaklab.records.traits import ModelTraits

SPREAD = 0.02
"""Standard deviation of first weights, as in timm's ``vit`` (there cut at two units)."""
NORM_EPSILON = 1e-6


class LayerNorm(nn.Module):
    """Layer normalisation of the last axis, written out.

    Mapped by ``torch.func``, torch's own has a wrong second derivative.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalised values, of the same shape."""
        centred = values - values.mean(-1, keepdim=True)
        normal = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + NORM_EPSILON)
        return normal * self.weight + self.bias


class PatchEmbedding(nn.Module):
    """One token for each patch: [B, C, H, W] -> [B, patches, width]."""

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        """Return the tokens, row by row."""
        tokens: Tensor = self.proj(images).flatten(2).transpose(1, 2)
        return tokens


class Tokens(nn.Module):
    """Puts the class token in front and adds the positions: [B, N, width] -> [B, N + 1, width]."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, patches + 1, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return all tokens."""
        return torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], 1) + self.pos_embed


class Attention(nn.Module):
    """Self-attention of several heads, [B, N, width] -> the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return what each token reads from all."""
        batch, number, width = tokens.shape
        parts = self.qkv(tokens).view(batch, number, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        scores = queries @ keys.transpose(-2, -1) * (width // self.heads) ** -0.5
        read = (torch.softmax(scores, -1) @ values).transpose(1, 2).reshape(batch, number, width)
        out: Tensor = self.proj(read)
        return out


class Perceptron(nn.Module):
    """Two affine layers with a GELU between them, for each token."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the new tokens."""
        out: Tensor = self.fc2(self.act(self.fc1(tokens)))
        return out


class Block(nn.Module):
    """Attention and a perceptron, each behind a layer norm and beside an identity."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = LayerNorm(width), Perceptron(width, 4 * width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the new tokens."""
        tokens = tokens + self.attn(self.norm1(tokens))
        out: Tensor = tokens + self.mlp(self.norm2(tokens))
        return out


class ClassToken(nn.Module):
    """Takes the class token: [B, N, width] -> [B, width]."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first token."""
        return tokens[:, 0]


@dataclass(frozen=True)
class VisionTransformer(Architecture):
    """A ViT without dropout; its own settings are small, base/16 at 224 has patch 16, width 768, 12 blocks and heads.

    It has no batch statistics: client and server are in the same state, whatever they call it.

    Attributes:
        patch: side of a patch; divides the images' sides.
        width: of a token.
        blocks: number of blocks.
        heads: of the attention; divides the width.
        side: images are enlarged to so many pixels first (bilinear); 0 for as they are.
        initialisation: of the patches' convolution alone; the other weights are N(0, 0.02^2), biases 0, norms the
            identity.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        step_microseconds=220_000.0, matching_milliseconds=6600.0, own_side=True, weights_mb=22.0
    )

    patch: Count = 4
    width: Count = 128
    blocks: Count = 4
    heads: Count = 4
    side: Natural = 0
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return resize (if any), patch_embed, tokens, blocks, norm, class_token, fc.

        Raises:
            UserError: patches do not fill the images, or heads the width.
        """
        channels, *sides = input_shape
        height, width = (self.side, self.side) if self.side else sides
        if height % self.patch or width % self.patch:
            raise UserError(f"model 'vit' cannot cut {height}x{width} into patches of {self.patch}: set patch or side")
        if self.width % self.heads:
            raise UserError(f"model 'vit' cannot share a width of {self.width} among {self.heads} heads: change one")
        resize = {"resize": nn.Upsample(size=(height, width), mode="bilinear")} if self.side else {}
        return {
            **resize,
            "patch_embed": PatchEmbedding(channels, self.patch, self.width),
            "tokens": Tokens((height // self.patch) * (width // self.patch), self.width),
            "blocks": nn.Sequential(*(Block(self.width, self.heads) for _ in range(self.blocks))),
            "norm": LayerNorm(self.width),
            "class_token": ClassToken(),
            "fc": nn.Linear(self.width, num_classes),
        }

    def initialised(
        self, input_shape: Shape, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Sequential:
        """Return the network with the initial weights of ``seed``; float32 is the rounded float64 draw."""
        network = self.build(input_shape, num_classes).to(dtype)
        draws = stream(seed, "initialisation")
        for layer in network.modules():
            _start(layer, draws, self.initialisation)
        return network


def _start(layer: nn.Module, draws: Stream, scheme: str) -> None:
    """Draw the parameters that are a layer's own, in place."""
    with torch.no_grad():
        if isinstance(layer, nn.Conv2d):
            initialise(layer, draws, scheme)
        elif isinstance(layer, LayerNorm):
            layer.weight.fill_(1.0)
        elif isinstance(layer, nn.Linear):
            layer.weight.copy_(SPREAD * draws.normal(*layer.weight.shape))
        elif isinstance(layer, Tokens):
            layer.pos_embed.copy_(SPREAD * draws.normal(*layer.pos_embed.shape))


PLUGIN = VisionTransformer
