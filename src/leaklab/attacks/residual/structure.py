"""What a residual network is made of: bends, affine maps between them, and readers.

ReLUs and max pooling are the *bends*: given their outputs, all else is affine, so that errors go back between them
exactly, whatever the values. A *reader* is a convolution that takes a bend's output, or the picture as it is: its
gradient is linear in either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from leaklab.attacks.residual.operations import AFFINE, RELU, Operations, near
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


@dataclass(frozen=True)
class Bend:
    """A ReLU or a max pooling.

    Attributes:
        name: of its node, which stands for its output.
        source: of the node of its input.
        kind: ``relu`` or ``max``.
    """

    name: str
    source: str
    kind: str


@dataclass(frozen=True, eq=False)
class Reader:
    """A convolution whose gradient is linear in a bend's output, or in what the network is given.

    Attributes:
        name: of the layer.
        layer: the convolution.
        node: of its output.
        given: of the node that it takes.
        bend: whose input its output is added to, cell by cell; None where it goes elsewhere too.
        gain: what an error of that bend's input is multiplied by on its way here, [O, H, W]; None without a bend.
    """

    name: str
    layer: nn.Conv2d
    node: str
    given: str
    bend: Bend | None
    gain: Tensor | None

    def seen(self, height: int, width: int) -> Tensor:
        """Return which cell of an input each tap sees at each place of the output, [K, P]; H W stands for padding."""
        layer, cells = self.layer, height * width
        assert not isinstance(layer.padding, str)  # such a layer is no reader
        rows, columns = layer.padding
        grid = torch.arange(cells, dtype=torch.float64, device=layer.weight.device).view(1, 1, height, width)
        padded = F.pad(grid, (columns, columns, rows, rows), value=cells)
        return F.unfold(padded, layer.kernel_size, layer.dilation, stride=layer.stride)[0].long()


class Structure:
    """A network in evaluation state and float64, as a graph of bends with affine maps between them.

    Args:
        network: any module; it is copied.
        shape: (C, H, W) of what it takes.
        who: for messages, e.g. ``attack 'residual-peel'``.

    Attributes:
        bends: in the order of their calls.
        readers: in the order of their calls.
        head: name of the affine layer at the end.
        features: node of the head's input.
        logits: node of its output.

    Raises:
        UserError: the network cannot be traced, or has something else; the message names the first thing.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...], who: str) -> None:
        self.operations = Operations(network, shape, who)
        self.bends = tuple(
            Bend(name, self.operations.nodes[name].all_input_nodes[0].name, kind)
            for name, kind in self.operations.kinds.items()
            if kind != AFFINE
        )
        self.head, self.features, self.logits = self._head()
        self.readers = tuple(self._readers())

    @property
    def picture(self) -> str:
        """Node that stands for what the network takes."""
        return str(self.operations.picture)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each node's value for one picture, without the batch."""
        return self.operations.shapes

    @cached_property
    def flat(self) -> dict[str, Tensor]:
        """Values [1, ...] of all nodes with every bend at 0, through which errors go back; see ``errors``."""
        like, shapes = self.operations.like, self.shapes
        leaves = {one: like.new_zeros(1, *shapes[one]).requires_grad_() for one in (self.picture, *self._bent)}
        with torch.enable_grad():
            # the input of a bend is wanted too, and the bend's own output is given
            return self.operations.values([*(one.source for one in self.bends), self.logits], leaves)

    def errors(self, at: str, known: Mapping[str, Tensor]) -> Tensor:
        """Return the loss's derivative at a node, of its shape without the batch.

        Args:
            at: name of the node.
            known: derivatives at all nodes behind it, up to the next bends' inputs and the logits, [1, ...].
        """
        values = self.flat
        own = {name: one for name, one in known.items() if values[name].requires_grad}
        found = torch.autograd.grad(
            [values[name] for name in own], values[at], list(own.values()), retain_graph=True, allow_unused=True
        )[0]
        return torch.zeros(self.shapes[at]).to(self.operations.like) if found is None else found[0]

    def through(self, start: str, end: str, values: Tensor, *, offset: bool = False) -> Tensor:
        """Return what becomes of values [1, ...] of one node at another, with all other bends at 0.

        Args:
            start: name of the node, a bend.
            end: name of a node with no other bend between.
            values: of the first.
            offset: whether what the affine map adds counts.
        """
        leaves = {one.name: values.new_zeros(1, *self.shapes[one.name]) for one in self.bends}
        leaves[self.picture] = values.new_zeros(1, *self.shapes[self.picture])
        made = self.operations.values([end], leaves | {start: values})[end]
        difference: Tensor = made - self.operations.values([end], leaves)[end]
        return made if offset else difference

    def bend_of(self, name: str) -> Bend:
        """Return the bend of a name."""
        return self._bent[name]

    def next_to(self, at: str) -> set[str]:
        """Return the bends that a node goes to with no other bend between, and the logits if it goes there."""
        found, left = set[str](), [self.operations.nodes[at]]
        while left:
            for user in left.pop().users:
                if user.name in self._bent or user.name == self.logits:
                    found.add(user.name)
                else:
                    left.append(user)
        return found

    @property
    def _bent(self) -> dict[str, Bend]:
        return {one.name: one for one in self.bends}

    def _head(self) -> tuple[str, str, str]:
        """Return the layer at the end, and the nodes of its input and output.

        Raises:
            UserError: there is none with a bias.
        """
        (end,) = (node for node in self.operations.nodes.values() if node.op == "output")
        last: Any = end.args[0]
        layer = self.operations.layer(last) if isinstance(last, fx.Node) else None
        if not isinstance(layer, nn.Linear) or layer.bias is None:
            raise UserError(
                f"{self.operations.who} needs an affine layer with a bias at the end: choose another attack or model"
            )
        return str(last.target), str(last.all_input_nodes[0].name), str(last.name)

    def _readers(self) -> list[Reader]:
        found, targets = [], [node.target for node in self.operations.nodes.values()]
        for node in self.operations.nodes.values():
            layer = self.operations.layer(node)
            if not isinstance(layer, nn.Conv2d) or isinstance(layer.padding, str) or targets.count(node.target) > 1:
                continue
            given = node.all_input_nodes[0].name
            plain = layer.groups == 1 and layer.padding_mode == "zeros"
            if plain and (given in self._bent or not self.operations.above([given], frozenset()) & self._bent.keys()):
                bend, gain = self._gain(node.name)
                found.append(Reader(str(node.target), layer, node.name, given, bend, gain))
        return found

    def _gain(self, name: str) -> tuple[Bend | None, Tensor | None]:
        """Return the only bend that a node goes to, cell by cell, and how much of its error comes back."""
        behind = self.next_to(name)
        bend = self._bent.get(next(iter(behind))) if len(behind) == 1 else None
        if bend is None or bend.kind != RELU or self.shapes[bend.source] != self.shapes[name]:
            return None, None
        drawn = stream(0, "gain", name).normal(1, *self.shapes[name]).to(self.operations.like)
        gain = self.errors(name, {bend.source: torch.ones_like(drawn)})
        return (bend, gain) if near(gain * drawn[0], self.errors(name, {bend.source: drawn})) else (None, None)
