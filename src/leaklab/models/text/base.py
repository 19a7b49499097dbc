"""What every text network offers: settings that build a module with token ids or embeddings in and logits out."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leaklab.records.bounds import Count, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream


class TextArchitecture(Protocol):
    """A plug-in of ``models/text``; a frozen dataclass whose fields are its settings."""

    @property
    def positions(self) -> int:
        """Longest sequence, in tokens with start and end."""
        ...

    def build(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network with all parameters zero, float32, in evaluation state."""
        ...

    def initialised(
        self, vocabulary_size: int, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Module:
        """Return the network with the initial weights of ``seed``."""
        ...


# A text network as a function of embeddings: what a token id cannot be, differentiated.

WORD_TABLE = "bert.embeddings.word_embeddings.weight"
"""Name of the table that turns token ids into embeddings; the only parameter that embeddings by-pass."""
POSITION_TABLE = "bert.embeddings.position_embeddings.weight"


def embeddings_of(network: nn.Module, ids: Tensor) -> Tensor:
    """Return the rows of the word table for ``ids`` [N, L]: [N, L, d], before positions are added."""
    return network.get_parameter(WORD_TABLE)[ids]


def logits_of(
    network: nn.Module, embeddings: Tensor, mask: Tensor | None = None, parameters: Mapping[str, Tensor] | None = None
) -> Tensor:
    """Return the logits for token embeddings.

    Args:
        network: of ``bert_classifier``.
        embeddings: [N, L, d], in place of token ids; positions and layer normalisation are the network's business.
        mask: [N, L], 1 for tokens and 0 for padding; None for tokens only.
        parameters: values that take the place of the network's own, by name; the others stay.

    Returns:
        [N, K].
    """
    given = {"inputs_embeds": embeddings, "attention_mask": mask}
    logits: Tensor = functional_call(network, dict(parameters or {}), (), given).logits
    return logits


# A small classifier of sentences with BERT's architecture and random weights; LRP table 7.

FEED_FORWARD = 4
"""Width of the feed-forward layers relative to the model's, as in BERT."""


@dataclass(frozen=True)
class BertClassifier:
    """Encoder with GELU and absolute positions, no dropout; eager attention, so that it can be differentiated twice.

    Attributes:
        layers: number of encoder layers.
        width: of the embeddings; a multiple of ``heads``.
        heads: attention heads per layer; BERT has 64 units in each.
        positions: longest sequence, in tokens with start and end.
        spread: standard deviation of the initial weights; biases start at 0, layer normalisations as the identity.
    """

    layers: Count = 4
    width: Count = 128
    heads: Count = 2
    positions: Count = 64
    spread: Positive = 0.02

    def build(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network with all parameters zero, float32 on the CPU; torch's generators are not touched.

        Args:
            vocabulary_size: rows of the word embedding table; row 0 is the padding.
            num_classes: number of outputs (logits), at least 2.

        Raises:
            UserError: the sizes do not fit together, or transformers is not installed.
        """
        self._check(vocabulary_size, num_classes)
        bert = _transformers_bert()
        settings = bert.BertConfig(
            vocab_size=vocabulary_size,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=FEED_FORWARD * self.width,
            hidden_act="gelu",
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=self.positions,
            pad_token_id=0,
            num_labels=num_classes,
            attn_implementation="eager",
        )
        with torch.device("meta"):  # the constructors would otherwise draw from the global generator
            network: nn.Module = bert.BertForSequenceClassification(settings)
        network = network.to_empty(device="cpu")
        _fill_buffers(network)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        return network.eval()

    def initialised(
        self, vocabulary_size: int, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Module:
        """Return the network with the initial weights of ``seed``; float32 is the rounded float64 draw."""
        network = self.build(vocabulary_size, num_classes).to(dtype)
        draws = stream(seed, "initialisation")
        for layer in network.modules():
            _initialise(layer, draws, self.spread)
        return network

    def _check(self, vocabulary_size: int, num_classes: int) -> None:
        if self.layers < 1 or self.heads < 1 or self.width < 1 or self.width % self.heads:
            raise UserError(
                f"bert-classifier: {self.layers} layers, width {self.width}, {self.heads} heads: "
                f"choose at least one of each, and a width that is a multiple of the heads"
            )
        if vocabulary_size < 1 or num_classes < 2 or self.positions < 1:
            raise UserError(
                f"bert-classifier: vocabulary {vocabulary_size}, classes {num_classes}, positions {self.positions}: "
                f"it needs a token, two classes and a position at least"
            )


def _initialise(layer: nn.Module, draws: Stream, spread: float) -> None:
    parameters = dict(layer.named_parameters(recurse=False))
    if not parameters:
        return
    if isinstance(layer, nn.LayerNorm):
        values: dict[str, Tensor] = {"weight": torch.ones(layer.weight.shape), "bias": torch.zeros(layer.bias.shape)}
    elif isinstance(layer, nn.Linear | nn.Embedding):
        values = {"weight": spread * draws.normal(*layer.weight.shape)}
        if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
            values["weight"][layer.padding_idx] = 0
        if isinstance(layer, nn.Linear):
            values["bias"] = torch.zeros(layer.out_features)
    else:
        raise UserError(
            f"bert-classifier: no initialisation for {type(layer).__name__}: check the transformers version"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])


def _fill_buffers(network: nn.Module) -> None:
    """Give the buffers that the meta device left empty their constant values."""
    for name, buffer in network.named_buffers():
        if name.endswith("position_ids"):
            buffer.copy_(torch.arange(buffer.shape[-1]).expand_as(buffer))
        elif name.endswith("token_type_ids"):
            buffer.zero_()
        else:
            raise UserError(f"bert-classifier: unknown buffer '{name}': check the transformers version")


def _transformers_bert() -> Any:
    try:
        return import_module("transformers.models.bert")
    except ImportError:
        raise UserError("bert-classifier needs transformers: install it with 'pip install transformers'") from None


PLUGINS = {
    "bert-classifier": BertClassifier,
}
