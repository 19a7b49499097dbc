"""Networks that are fine-tuned today: GPT-2's and Llama's shape, any size, for classes or for the next token.

Built from the settings by ``transformers``, without a download. Sources: A. Radford et al., "Language models are
unsupervised multitask learners", 2019; H. Touvron et al., "LLaMA: open and efficient foundation language models", 2023.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from leaklab.data.text.corpus import PADDING
from leaklab.models.text.low_rank import LowRank, Matrices, adapt
from leaklab.records.bounds import Count, Flag, Natural, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream
from leaklab.records.traits import TextModelTraits

Loss = Literal["classes", "next-token"]
LoraState = Literal["first-step", "trained"]
FEED_FORWARD = 4
"""Width of GPT-2's feed-forward layers relative to the model's."""
GATED = 8 / 3
"""The same of Llama's, which have three matrices in place of two."""

ROTATION = 10_000.0
"""Base of the angles by which Llama's heads are turned from place to place."""


@dataclass(frozen=True)
class Decoder(ABC):
    """What both families share; padding is token 0 and never attended to, nothing is dropped.

    Attributes:
        layers: number of blocks.
        width: of the embeddings; a multiple of ``heads``.
        heads: of attention.
        positions: longest sequence, in tokens.
        loss: ``classes`` from the last token, or ``next-token`` at every place but the last.
        tied: the output of the next token is the word table.
        spread: standard deviation of the initial weights; biases start at 0, normalisations as the identity.
        rank: of LoRA on the matrices of ``adapted``; 0 for none.
        adapted: which of an attention's matrices LoRA changes, in every block.
        lora: ``first-step``, B is zero; ``trained``, B is drawn like the weights, in place of a training.
    """

    traits: ClassVar[TextModelTraits] = TextModelTraits(decoder=True)

    layers: Count = 2
    width: Count = 128
    heads: Count = 4
    positions: Count = 64
    loss: Loss = "classes"
    tied: Flag = True
    spread: Positive = 0.02
    rank: Natural = 0
    adapted: Matrices = "qv"
    lora: LoraState = "first-step"

    def build(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network with all parameters zero, float32 on the CPU; torch's generators are not touched.

        Args:
            vocabulary_size: rows of the word table; row 0 is the padding.
            num_classes: outputs for ``classes``, at least 2.

        Raises:
            UserError: sizes do not fit together, or transformers is not installed.
        """
        network = self._plain(vocabulary_size, num_classes)
        if self.rank:
            adapt(network, self.rank, self.adapted)
        return network

    def initialised(
        self, vocabulary_size: int, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Module:
        """Return the network with the initial weights of ``seed``; float32 is the rounded float64 draw."""
        network = self._plain(vocabulary_size, num_classes).to(dtype)
        self._draw(network, stream(seed, "initialisation"))
        if self.rank:
            adapt(network, self.rank, self.adapted)
            self._draw(network, stream(seed, "initialisation of LoRA"))
        return network

    def _plain(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network without LoRA, all parameters zero."""
        self._check(vocabulary_size, num_classes)
        with torch.device("meta"):  # the constructors would otherwise draw from the global generator
            network = self._empty(vocabulary_size, num_classes)
        network = network.to_empty(device="cpu")
        network.tie_weights()  # type: ignore[operator]  # an empty tensor is given to each of two tied names
        self._fill(network)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        return network.eval()

    def _draw(self, network: nn.Module, draws: Stream) -> None:
        with torch.no_grad():
            for layer in network.modules():
                for name, parameter in layer.named_parameters(recurse=False):
                    parameter.copy_(self._drawn(layer, name, parameter, draws))

    def _drawn(self, layer: nn.Module, name: str, parameter: Tensor, draws: Stream) -> Tensor:
        if name == "bias" or (isinstance(layer, LowRank) and name.startswith("B_") and self.lora == "first-step"):
            return torch.zeros(parameter.shape)
        if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
            return torch.ones(parameter.shape)
        drawn = self.spread * draws.normal(*parameter.shape)
        if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
            drawn[layer.padding_idx] = 0
        return drawn

    def _check(self, vocabulary_size: int, num_classes: int) -> None:
        if self.width % self.heads or vocabulary_size < 1 or num_classes < 2:
            raise UserError(
                f"a decoder of width {self.width} with {self.heads} heads, {vocabulary_size} tokens, {num_classes} "
                "classes: choose a width that is a multiple of the heads, a token and two classes at least"
            )
        if self.rank > self.width:
            raise UserError(f"LoRA of rank {self.rank} is wider than the network ({self.width}): lower the rank")

    @abstractmethod
    def _empty(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network of transformers, without LoRA; called where tensors have no storage."""

    def _fill(self, network: nn.Module) -> None:
        """Give the buffers that have no storage yet their constant values."""
        for name, _ in network.named_buffers():
            raise UserError(f"unknown buffer '{name}' in a decoder: check the transformers version")


def _family(name: str) -> Any:
    try:
        return import_module(f"transformers.models.{name}")
    except ImportError:
        raise UserError("decoders need transformers: install it with 'pip install transformers'") from None


def _shared(decoder: Decoder, vocabulary_size: int, num_classes: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary_size,
        "pad_token_id": PADDING,
        "bos_token_id": None,
        "eos_token_id": None,
        "num_labels": num_classes,
        "tie_word_embeddings": decoder.tied,
        "use_cache": False,
    }


@dataclass(frozen=True)
class Gpt2(Decoder):
    """GPT-2's shape: absolute places, layer normalisation in front, one matrix for queries, keys and values, GELU."""

    def _empty(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        gpt2 = _family("gpt2")
        config = gpt2.GPT2Config(
            n_positions=self.positions,
            n_embd=self.width,
            n_layer=self.layers,
            n_head=self.heads,
            n_inner=FEED_FORWARD * self.width,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            attn_implementation="eager",
            **_shared(self, vocabulary_size, num_classes),
        )
        kind = gpt2.GPT2LMHeadModel if self.loss == "next-token" else gpt2.GPT2ForSequenceClassification
        network: nn.Module = kind(config)
        return network


@dataclass(frozen=True)
class Llama(Decoder):
    """Llama's shape: rotary places, root-mean-square normalisation in front, gated SiLU, no biases.

    Attributes:
        groups: heads of keys and values, a divisor of ``heads``.
    """

    groups: Count = 2

    def _check(self, vocabulary_size: int, num_classes: int) -> None:
        super()._check(vocabulary_size, num_classes)
        if self.heads % self.groups or self.width // self.heads % 2:
            raise UserError(
                f"rotary heads of {self.width // self.heads} units in {self.groups} groups of {self.heads}: choose an "
                "even number of units in each head, and groups that divide the heads"
            )

    def _empty(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        llama = _family("llama")
        config = llama.LlamaConfig(
            max_position_embeddings=self.positions,
            hidden_size=self.width,
            intermediate_size=2 * round(GATED * self.width / 2),
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.groups,
            attn_implementation="sdpa",  # the eager one rounds to float32 whatever the network's type is
            **_shared(self, vocabulary_size, num_classes),
        )
        kind = llama.LlamaForCausalLM if self.loss == "next-token" else llama.LlamaForSequenceClassification
        network: nn.Module = kind(config)
        _keep_dtype(network, config.rms_norm_eps)
        return network

    def _fill(self, network: nn.Module) -> None:
        size = self.width // self.heads
        for name, buffer in network.named_buffers():
            if not name.endswith("inv_freq"):
                raise UserError(f"unknown buffer '{name}' in Llama's places: check the transformers version")
            buffer.copy_(1.0 / ROTATION ** (torch.arange(0, size, 2) / size))


def _keep_dtype(network: nn.Module, epsilon: float) -> None:
    """Put torch's normalisation in place of one that rounds to float32 whatever the network's type is."""
    children: list[tuple[str, Any]] = list(network.named_children())
    for name, layer in children:
        if type(layer).__name__ == "LlamaRMSNorm":
            setattr(network, name, nn.RMSNorm(layer.weight.numel(), eps=epsilon))
        else:
            _keep_dtype(layer, epsilon)


# What a client minimises, as a function of the weights.


def loss_of(
    network: nn.Module, ids: Tensor, labels: Tensor | None, weights: Mapping[str, Tensor] | None = None
) -> Tensor:
    """Return a batch's mean cross-entropy: of the classes, or of the next token over all places that have one.

    Args:
        network: of this room.
        ids: int64 [B, L], padded with 0 at the end.
        labels: int64 [B] of a network for classes; None for the next token.
        weights: values that take the place of the network's own, by name.
    """
    given = {"input_ids": ids, "attention_mask": (ids != PADDING).to(torch.int64)}
    logits = functional_call(network, dict(weights or {}), (), given).logits
    if labels is not None:
        return F.cross_entropy(logits, labels)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PADDING)


def gradients_of(network: nn.Module, ids: Tensor, labels: Tensor | None) -> dict[str, Tensor]:
    """Return the gradient of ``loss_of`` by the names of the network's parameters."""
    leaves = {name: value.detach().requires_grad_() for name, value in network.named_parameters()}
    found = torch.autograd.grad(loss_of(network, ids, labels, leaves), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


# Plug-ins: both families as they are, and as classifiers without LoRA, which are called with nothing but ids.


@dataclass(frozen=True)
class Gpt2Classifier:
    """A classifier of sentences in GPT-2's form with random weights; settings as ``Decoder`` explains them."""

    traits: ClassVar[TextModelTraits] = TextModelTraits(decoder=True)
    family: ClassVar[type[Decoder]] = Gpt2

    layers: Count = 2
    width: Count = 128
    heads: Count = 4
    positions: Count = 64
    spread: Positive = 0.02

    def build(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network with all parameters zero; see ``Decoder.build``."""
        return self.family(**vars(self)).build(vocabulary_size, num_classes)

    def initialised(
        self, vocabulary_size: int, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Module:
        """Return the network with the initial weights of ``seed``."""
        return self.family(**vars(self)).initialised(vocabulary_size, num_classes, seed, dtype)


@dataclass(frozen=True)
class LlamaClassifier(Gpt2Classifier):
    """The same in Llama's form; ``groups`` as ``Llama`` explains them."""

    family: ClassVar[type[Decoder]] = Llama

    groups: Count = 2


PLUGINS = {"gpt2": Gpt2, "llama": Llama, "gpt2-classifier": Gpt2Classifier, "llama-classifier": LlamaClassifier}
