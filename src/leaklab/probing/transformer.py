"""A transformer of somebody else's as the house reads it: found in any wrapper, with the LoRA of ``peft`` beside it.

GPT-2, Llama and BERT of ``transformers``, and whatever has the same first block under the same names (Mistral, Qwen2,
...), are read by ``models/text/first_block``. Whether a network is one of those is not taken from its name: the first
block is computed both ways, and has to agree.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.models.text.first_block import FirstBlock, first_block, sentence_inputs
from leaklab.models.text.low_rank import FUSED, SCALE, SEPARATE, LowRank, freeze
from leaklab.probing.owned import with_state
from leaklab.records.errors import UserError

BODIES = {"transformer": ("h", "wte", "wpe"), "model": ("layers", "embed_tokens"), "bert": ("encoder", "embeddings")}
"""Attribute of a network that holds its blocks -> what stands in it."""
AGREE = 1e-6
"""Largest difference of the first block computed both ways, over its size; float64, but rotations are float32."""
TRIED = 6
"""Tokens of the sentence that is put through it."""


@dataclass(frozen=True, eq=False)
class Transformer:
    """A network that the house reads.

    Attributes:
        network: a copy in the house's form, with the weights that the client was given.
        names: the client's name of a parameter -> its name there; what is trained and not named there is not read.
        factors: the house's name -> by what a gradient under the client's name has to be multiplied; 1 if not named.
        block: its first block.
    """

    network: nn.Module
    names: Mapping[str, str]
    factors: Mapping[str, float]
    block: FirstBlock

    def update(self, sent: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what was sent under the house's names, in its own type; tensors that the house does not read lack."""
        found = {self.names[name]: value for name, value in sent.items() if name in self.names}
        return {name: value * self.factors.get(name, 1.0) for name, value in found.items()}


Output = Callable[[nn.Module, Tensor], Any]
"""(model, token ids [B, L]) -> logits, as the client calls its model."""


def transformer_of(
    model: nn.Module, before: Mapping[str, Tensor], usual: Mapping[str, str] | None = None, output: Output | None = None
) -> Transformer:
    """Return the transformer inside a model, read as the house's.

    Args:
        model: holds it anywhere; it is copied.
        before: the state that the client was given, by the names of ``state_dict``.
        usual: path of a layer in the model -> the one that it has in GPT-2, Llama or BERT; None where they are usual.
        output: how the model is called where paths are not usual; None for ``model(ids)``.

    Raises:
        UserError: there is none, or its first block is computed in another way.
    """
    copy = with_state(model, before).cpu()
    trained = {id(value): name for name, value in copy.named_parameters() if value.requires_grad}
    at, network = _found(Usual(copy, usual, output) if usual else copy)
    factors = _thinned(network)
    freeze(network, lambda layer: not any(id(one) in trained for one in layer.parameters(recurse=False)))
    _plain_norms(network)
    names = {trained[id(value)]: name for name, value in network.named_parameters() if id(value) in trained}
    try:
        block = first_block(network)
        same = _agrees(network, block)
    except (AttributeError, KeyError, IndexError) as error:
        raise UserError(
            f"{type(network).__name__} is no transformer of GPT-2's, Llama's or BERT's form: {error}"
        ) from None
    if not same:
        raise UserError(
            f"{at or 'the model'}: {type(network).__name__} has the names of a transformer that the house reads, and "
            "its first block computes something else: no sentence is read of it"
        )
    return Transformer(network.eval().requires_grad_(requires_grad=False), names, factors, block)


class Usual(nn.Module):
    """A model whose layers stand at the usual paths too, e.g. at ``transformer.h`` what it calls ``decoder.blocks``.

    Raises:
        UserError: it has no layer of a path.
    """

    def __init__(self, model: nn.Module, usual: Mapping[str, str], output: Output | None) -> None:
        super().__init__()
        for path, other in usual.items():
            try:
                layer = model.get_submodule(path)
            except AttributeError:
                raise UserError(f"the model has no layer '{path}': look at the names of named_modules()") from None
            *way, last = other.split(".")
            place: nn.Module = self
            for name in way:
                if name not in dict(place.named_children()):
                    place.add_module(name, nn.Module())
                place = place.get_submodule(name)
            place.add_module(last, layer)
        self.inner, self._output = model, output or (lambda whole, ids: whole(ids))
        self.config = getattr(model, "config", None)

    @property
    def base_model(self) -> nn.Module:
        """Return what is called to run all blocks."""
        return self

    def get_output_embeddings(self) -> nn.Module:
        """Return the layer that gives the logits of the next token."""
        return self.get_submodule("lm_head")

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Return the logits of token ids [B, L]."""
        return SimpleNamespace(logits=self._output(self.inner, input_ids))


def _found(model: nn.Module) -> tuple[str, nn.Module]:
    for at, module in model.named_modules():
        for attribute, parts in BODIES.items():
            # what a module itself holds: wrappers pass on what they are asked for
            body = dict(module.named_children()).get(attribute)
            if body is not None and all(hasattr(body, part) for part in parts):
                return at, module
    raise UserError(
        "the model holds no transformer whose sentences the house reads: 'transformer' with h, wte and wpe (GPT-2), "
        "'model' with layers and embed_tokens (Llama), or 'bert' with encoder and embeddings"
    )


def _thinned(network: nn.Module) -> dict[str, float]:
    """Put the house's LoRA in place of that of ``peft`` beside attention, and return the factors of its gradients."""
    factors: dict[str, float] = {}
    for path, layer in list(network.named_modules()):
        for name, child in list(layer.named_children()):
            kind = "qkv" if name == FUSED else next((one for one, own in SEPARATE.items() if name in own), None)
            if kind is None or not hasattr(child, "lora_A") or not len(child.lora_A):
                continue
            setattr(layer, name, _low_rank(child, name == FUSED, kind))
            # the house's factor is a constant, so that B takes the rest of it, and its gradient too
            factors[".".join(part for part in (path, name, f"B_{kind}") if part)] = SCALE / _scale(child)
    return factors


def _scale(child: Any) -> float:
    return float(child.scaling[_adapter(child)])


def _adapter(child: Any) -> str:
    if len(child.lora_A) > 1:
        raise UserError(f"LoRA has the adapters {', '.join(child.lora_A)}: keep the one that is trained")
    return str(next(iter(child.lora_A)))


def _low_rank(child: Any, fused: bool, kind: str) -> LowRank:
    one = _adapter(child)
    thin, wide = child.lora_A[one].weight, child.lora_B[one].weight
    own = LowRank(child.base_layer, fused, {kind: (0, wide.shape[0])}, thin.shape[0])
    with torch.no_grad():
        wide.mul_(_scale(child) / SCALE)
    setattr(own, f"A_{kind}", thin)
    setattr(own, f"B_{kind}", wide)
    return own


def _plain_norms(network: nn.Module) -> None:
    """Put torch's normalisation in place of those that round to float32 whatever the network's type is."""
    for layer in list(network.modules()):
        for name, child in list(layer.named_children()):
            weight, epsilon = getattr(child, "weight", None), getattr(child, "variance_epsilon", None)
            if isinstance(weight, nn.Parameter | Tensor) and epsilon is not None:
                plain = nn.RMSNorm(weight.numel(), eps=epsilon)
                if isinstance(weight, nn.Parameter):
                    plain.weight = weight
                else:
                    del plain.weight
                    plain.register_buffer("weight", weight)
                setattr(layer, name, plain)


def _agrees(network: nn.Module, block: FirstBlock) -> bool:
    """Tell whether the first perceptron's inputs of some sentence are the same, computed by the network itself."""
    taken: list[Tensor] = []
    at = block.names.of("mlp", 0)[0].removesuffix(".weight")
    double = deepcopy(network).double().eval()
    hook = double.get_submodule(at).register_forward_pre_hook(lambda _, given: taken.append(given[0]))
    tokens = torch.arange(1, 1 + min(TRIED, len(block.words) - 1, block.positions))
    with torch.no_grad():
        double(input_ids=tokens[None])
        own, _ = sentence_inputs(block, tokens)
    hook.remove()
    return float((taken[0].reshape(own.shape) - own).norm() / own.norm()) < AGREE
