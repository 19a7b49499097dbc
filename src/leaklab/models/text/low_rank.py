"""LoRA: a product of two thin matrices beside named matrices of every attention, trained in their place.

Source: E. J. Hu et al., "LoRA: Low-rank adaptation of large language models", 2021, equation 3: y = W x + s B A x with
A [r, d], B [d_out, r] and s = alpha / r; B starts at zero. W is frozen: it becomes a constant (a buffer) of its layer.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from leaklab.records.errors import UserError

Matrices = Literal["q", "k", "v", "qk", "qv", "kv", "qkv"]
"""Which of queries, keys and values."""
SCALE = 2.0
"""s = alpha / r with alpha = 2 r, a common choice."""
FUSED = "c_attn"
"""GPT-2's one matrix for queries, keys and values, side by side."""
SEPARATE = {"q": ("q_proj", "query"), "k": ("k_proj", "key"), "v": ("v_proj", "value")}
"""Names of the others' matrices: Llama's, BERT's."""


class LowRank(nn.Module):
    """A frozen affine layer and thin products beside parts of its outputs: [..., d] -> [..., d_out].

    Attributes:
        spans: matrix -> first and last + 1 of its outputs among those of the layer.
        A_q, B_q, ...: [r, d] and [outputs, r] of each adapted matrix.
    """

    def __init__(self, base: nn.Module, fused: bool, spans: dict[str, tuple[int, int]], rank: int) -> None:
        super().__init__()
        weight = next(base.parameters())
        inputs, outputs = weight.shape if fused else weight.shape[::-1]
        self.base, self.outputs, self.spans = base, outputs, spans
        for name, (first, last) in spans.items():
            self.register_parameter(f"A_{name}", nn.Parameter(weight.new_zeros(rank, inputs)))
            self.register_parameter(f"B_{name}", nn.Parameter(weight.new_zeros(last - first, rank)))

    def forward(self, values: Tensor) -> Tensor:
        """Return the adapted outputs."""
        out: Tensor = self.base(values)
        for name, (first, last) in self.spans.items():
            thin = F.linear(F.linear(values, getattr(self, f"A_{name}")), getattr(self, f"B_{name}"))
            out = out + F.pad(SCALE * thin, (first, self.outputs - last))
        return out


def adapt(network: nn.Module, rank: int, matrices: Matrices) -> None:
    """Put LoRA beside the named matrices of every attention of ``network``, in place, and freeze all the rest.

    Args:
        network: GPT-2, Llama or BERT of transformers.
        rank: r.
        matrices: some of q, k and v.

    Raises:
        UserError: a network without these.
    """
    found = 0
    for layer in list(network.modules()):
        for name, child in list(layer.named_children()):
            spans = _spans(name, child, matrices)
            if spans:
                setattr(layer, name, LowRank(child, name == FUSED, spans, rank))
                found += 1
    if not found:
        raise UserError("LoRA needs attention of GPT-2, Llama or BERT: choose another model or rank 0")
    freeze(network, lambda layer: not isinstance(layer, LowRank))


def _spans(name: str, layer: Any, matrices: Matrices) -> dict[str, tuple[int, int]]:
    if name == FUSED:
        third = layer.weight.shape[1] // 3
        return {one: ("qkv".index(one) * third, ("qkv".index(one) + 1) * third) for one in matrices}
    return {one: (0, layer.weight.shape[0]) for one in matrices if name in SEPARATE[one]}


def freeze(network: nn.Module, chosen: Callable[[nn.Module], bool]) -> None:
    """Make constants (buffers) of the parameters of the chosen layers, in place, wherever else they stand.

    Args:
        network: of this room.
        chosen: tells of a layer whether its own parameters, not those of layers inside it, are frozen.
    """
    # a tied table is one tensor at two places
    fixed = {id(one) for layer in network.modules() if chosen(layer) for one in layer.parameters(recurse=False)}
    for layer in network.modules():
        for name, value in list(layer.named_parameters(recurse=False)):
            if id(value) in fixed:
                delattr(layer, name)
                layer.register_buffer(name, value.detach())


def frozen_of(network: nn.Module) -> dict[str, Tensor]:
    """Return the constants of a network that are weights all the same, by name; a tied one twice, as files want it."""
    saved, found = network.state_dict(), dict[str, Tensor]()
    for name, value in network.named_buffers():
        if name in saved:
            twice = any(value.data_ptr() == other.data_ptr() for other in found.values())
            found[name] = value.detach().clone() if twice else value.detach()
    return found
