"""The first block of a transformer as functions of tokens and places: what each of its matrices is multiplied with.

All inputs of the first attention depend on a token and its place alone; the inputs of the first perceptron are those of
the attention's outcome. So both are known, up to the sentence, to whoever has the weights. GPT-2, Llama and BERT of
``transformers`` are read by their structure, whatever their sizes; their layers themselves are called, so that LoRA
beside them counts.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.text.base import POSITION_TABLE, WORD_TABLE
from leaklab.records.errors import UserError

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Names:
    """Names of parameters, each followed by ``{block}`` where there is one in every block.

    Attributes:
        words: the word table.
        places: the table of absolute places; empty where places are rotations.
        attention: matrices that multiply the attention's inputs.
        mlp: those of the perceptron's inputs.
        last: the matrix behind the perceptron's activations.
        final: the normalisation behind all blocks; empty where there is none.
        output_first: whether they are stored [outputs, inputs], not the other way.
    """

    words: str
    places: str
    attention: tuple[str, ...]
    mlp: tuple[str, ...]
    last: str
    final: str
    output_first: bool

    def of(self, part: str, block: int) -> list[str]:
        """Return the names of ``attention``, ``mlp`` or ``last`` in a block."""
        named = getattr(self, part)
        return [name.format(block=block) for name in ([named] if isinstance(named, str) else named)]


@dataclass(frozen=True, eq=False)
class Normalisation:
    """x -> g * (x - mean) / sqrt(var + epsilon) + b; without ``centred`` no mean is taken off, and there is no b."""

    weight: Tensor
    bias: Tensor
    epsilon: float
    centred: bool

    @classmethod
    def of(cls, layer: Any) -> "Normalisation":
        """Read a layer of torch; [d] parameters."""
        bias = getattr(layer, "bias", None)
        weight: Tensor = layer.weight.detach()
        centred = isinstance(layer, nn.LayerNorm)
        none = torch.zeros_like(weight) if bias is None else bias.detach()
        return cls(weight, none, float(layer.eps), centred)

    def centre(self, values: Tensor) -> Tensor:
        """Return values [..., d] without their mean, where it is taken off."""
        return values - values.mean(-1, keepdim=True) if self.centred else values

    def size(self, centred: Tensor) -> Tensor:
        """Return the divisor of centred values [..., d]: [..., 1]."""
        return (centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt()

    def __call__(self, values: Tensor) -> Tensor:
        """Return the normalised values [..., d]."""
        centred = self.centre(values)
        return self.weight * centred / self.size(centred) + self.bias


@dataclass(frozen=True, eq=False)
class FirstBlock:
    """The first block, float64; N tokens v [N] at places p [N], width d, H heads.

    Attributes:
        network: the whole of it, float64, which never asks for a gradient.
        names: of its parameters.
        blocks: how many there are.
        words: [V, d].
        places: [P, d]; none, P = 0, where places are rotations.
        positions: longest sequence.
        causal: a token sees only those before it.
        first: normalisation of the attention's inputs.
        second: that of the perceptron's inputs.
        output: from the attention's outcomes side by side [..., d] to what is added [..., d].
    """

    network: nn.Module
    names: Names
    blocks: int
    words: Tensor
    places: Tensor
    positions: int
    causal: bool
    first: Normalisation
    second: Normalisation
    output: Map
    _normal_first: bool
    _heads: int
    _projected: Map
    _rotary: Any
    _onward: Callable[[Tensor, Tensor], Tensor]

    @property
    def width(self) -> int:
        """Return d."""
        return self.words.shape[1]

    def embedded(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Return what is carried past the attention, [N, d]."""
        summed = self.words[tokens] + self.places[places] if len(self.places) else self.words[tokens]
        return self.first(summed) if self._normal_first else summed

    def inputs(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Return the inputs of the attention's matrices, [N, d]."""
        embedded = self.embedded(tokens, places)
        return embedded if self._normal_first else self.first(embedded)

    def attention(self, tokens: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (scaled by the root of a head's width), keys and values, each [N, H, d / H]."""
        projected = self._projected(self.inputs(tokens, places))
        size = self.width // self._heads
        groups = (projected.shape[1] - self.width) // (2 * size)
        parts = torch.split(projected, [self.width, groups * size, groups * size], 1)
        query, key, value = (part.reshape(len(part), part.shape[1] // size, size) for part in parts)
        if self._rotary is not None:
            cos, sin = (turn[0][:, None] for turn in self._rotary(query, places[None]))
            query, key = (one * cos + _turned(one) * sin for one in (query, key))
        key, value = (one.repeat_interleave(self._heads // groups, 1) for one in (key, value))
        return query / math.sqrt(size), key, value

    def between(self, embedded: Tensor, outcome: Tensor) -> Tensor:
        """Return the sum in front of the second normalisation, [N, d], from ``embedded`` and outcomes [N, H, d / H]."""
        return embedded + self.output(outcome.flatten(1))

    def onward(self, between: Tensor) -> Tensor:
        """Return the inputs of the second block's attention, [N, d].

        Raises:
            UserError: there is no second block.
        """
        if self.blocks < 2:
            raise UserError("a network of one block has no second one: its sentences cannot be told from their words")
        return self._onward(between, self.second(between))


def _turned(values: Tensor) -> Tensor:
    left, right = values.chunk(2, -1)
    return torch.cat([-right, left], -1)


def first_block(network: nn.Module) -> FirstBlock:
    """Return the first block of a network of ``models/text``; it is copied, not changed.

    Raises:
        UserError: the network is none of GPT-2's, Llama's or BERT's.
    """
    double = deepcopy(network).double().eval().requires_grad_(requires_grad=False)
    for attribute, build in (("transformer", _gpt2), ("model", _llama), ("bert", _bert)):
        if hasattr(double, attribute):
            return build(double, getattr(double, attribute))
    raise UserError(f"{type(network).__name__} is read as none of GPT-2, Llama, BERT: choose another model")


def _gpt2(network: nn.Module, body: Any) -> FirstBlock:
    block = body.h[0]
    names = Names(
        "transformer.wte.weight",
        "transformer.wpe.weight",
        ("transformer.h.{block}.attn.c_attn.weight",),
        ("transformer.h.{block}.mlp.c_fc.weight",),
        "transformer.h.{block}.mlp.c_proj.weight",
        "transformer.ln_f",
        output_first=False,
    )
    return FirstBlock(
        network, names, len(body.h), body.wte.weight.detach(), body.wpe.weight.detach(), body.wpe.num_embeddings,
        causal=True, first=Normalisation.of(block.ln_1), second=Normalisation.of(block.ln_2),
        output=block.attn.c_proj, _normal_first=False, _heads=block.attn.num_heads, _projected=block.attn.c_attn,
        _rotary=None, _onward=lambda between, inputs: body.h[1].ln_1(between + block.mlp(inputs)),
    )  # fmt: skip


def _llama(network: nn.Module, body: Any) -> FirstBlock:
    block = body.layers[0]
    at = "model.layers.{block}."
    names = Names(
        "model.embed_tokens.weight",
        "",
        tuple(f"{at}self_attn.{one}_proj.weight" for one in "qkv"),
        (f"{at}mlp.gate_proj.weight", f"{at}mlp.up_proj.weight"),
        f"{at}mlp.down_proj.weight",
        "model.norm",
        output_first=True,
    )
    words, own = body.embed_tokens.weight.detach(), block.self_attn
    return FirstBlock(
        network, names, len(body.layers), words, words[:0], network.config.max_position_embeddings,  # type: ignore[union-attr,arg-type]
        causal=True, first=Normalisation.of(block.input_layernorm),
        second=Normalisation.of(block.post_attention_layernorm), output=own.o_proj, _normal_first=False,
        _heads=network.config.num_attention_heads,  # type: ignore[union-attr,arg-type]
        _projected=lambda h: torch.cat([own.q_proj(h), own.k_proj(h), own.v_proj(h)], 1), _rotary=body.rotary_emb,
        _onward=lambda between, inputs: body.layers[1].input_layernorm(between + block.mlp(inputs)),
    )  # fmt: skip


def _bert(network: nn.Module, body: Any) -> FirstBlock:
    table, block = body.embeddings, body.encoder.layer[0]
    own, at = block.attention.self, "bert.encoder.layer.{block}."
    names = Names(
        WORD_TABLE,
        POSITION_TABLE,
        tuple(f"{at}attention.self.{one}.weight" for one in ("query", "key", "value")),
        (f"{at}intermediate.dense.weight",),
        f"{at}output.dense.weight",
        "",
        output_first=True,
    )
    places = (table.position_embeddings.weight + table.token_type_embeddings.weight[0]).detach()
    return FirstBlock(
        network, names, len(body.encoder.layer), table.word_embeddings.weight.detach(), places, len(places),
        causal=False, first=Normalisation.of(table.LayerNorm),
        second=Normalisation.of(block.attention.output.LayerNorm), output=block.attention.output.dense,
        _normal_first=True, _heads=own.num_attention_heads,
        _projected=lambda h: torch.cat([own.query(h), own.key(h), own.value(h)], 1), _rotary=None,
        _onward=lambda _, inputs: block.output(block.intermediate(inputs), inputs),
    )  # fmt: skip


def sentence_inputs(block: FirstBlock, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the perceptron's inputs, and those of the second block, of one sentence [L]: each [L, d].

    A network of one block has no second ones, [0, d].
    """
    places = torch.arange(len(tokens))
    query, key, value = block.attention(tokens, places)
    scores = torch.einsum("ihd,jhd->hij", query, key)
    if block.causal:
        scores = scores.masked_fill(torch.ones(len(tokens), len(tokens)).triu(1).bool(), -math.inf)
    outcome = torch.einsum("hij,jhd->ihd", F.softmax(scores, -1), value)
    between = block.between(block.embedded(tokens, places), outcome)
    return block.second(between), block.onward(between) if block.blocks > 1 else between[:0]
