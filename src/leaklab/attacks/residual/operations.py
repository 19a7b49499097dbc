"""The operations of a network, found from the network itself: it is traced, and each one is tried on two pictures.

An operation that maps the mean of its arguments to the mean of its results is affine: convolutions, batch normalisation
in evaluation state, shortcuts of any kind, sums, average pooling. One that cuts at 0 is a ReLU; max pooling goes by its
name. What is none of these is refused by its name.
"""

import operator
from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from leaklab.records.errors import UserError
from leaklab.records.streams import stream

EXACT = 1e-9
"""Relative error up to which two ways to the same number agree, in float64."""
SIZES = (1.0, 1e3)
"""Of the pictures: what bends at large values only is no ReLU."""
FORM = "convolutions, batch normalisation in evaluation state, ReLU, sums, pooling and one affine layer"
IN_PLACE = {operator.iadd: operator.add, "relu_": "relu", "add_": "add", F.relu_: F.relu, torch.relu_: torch.relu}
"""An operation that overwrites its argument, and the one that does not."""
AFFINE, RELU, MAX = "affine", "relu", "max"


class Operations:
    """A network in evaluation state and float64, operation by operation; values go by the names of nodes.

    Args:
        network: any module; it is copied.
        shape: (C, H, W) of what it takes.
        who: for messages, e.g. ``attack 'residual-peel'``.

    Attributes:
        nodes: in the order of their calls.
        picture: name of the node that stands for what the network takes.
        kinds: ``affine``, ``relu`` or ``max`` of each operation.

    Raises:
        UserError: the network cannot be traced, or has an operation of no kind.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...], who: str) -> None:
        self.who, self.shape = who, shape
        self._traced = _traced(network, who)
        self.nodes = {node.name: node for node in self._traced.graph.nodes}
        self._run = fx.Interpreter(self._traced)
        places = [name for name, node in self.nodes.items() if node.op == "placeholder"]
        if len(places) != 1:
            raise UserError(f"{who} needs a network that takes pictures alone: choose another attack or model")
        self.picture = places[0]
        self.kinds = self._tried()

    def values(
        self, wanted: Collection[str], given: Mapping[str, Tensor], masks: Mapping[str, Tensor | None] | None = None
    ) -> dict[str, Tensor]:
        """Return the values of nodes, and of all on the way, from those of others.

        Args:
            wanted: names of nodes.
            given: values by node: of the picture, or of bends.
            masks: what bends multiply by in place of cutting at 0; None for nothing at all.
        """
        found, masks = dict(given), masks or {}
        needed = self.above(wanted, frozenset(given))
        for name, node in self.nodes.items():
            if name in needed and name not in found:
                args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: found[one.name])
                if name in masks:
                    mask, values = masks[name], next(found[one.name] for one in node.all_input_nodes)
                    found[name] = values if mask is None else values * mask
                else:
                    found[name] = getattr(self._run, node.op)(node.target, args, kwargs)
        return found

    def gradients(self, picture: Tensor, at: str, derivatives: Tensor) -> dict[str, Tensor]:
        """Return the gradient of every parameter, by name, of a loss with given derivatives at a node.

        Args:
            picture: what the network takes, [1, C, H, W].
            at: name of the node.
            derivatives: of its shape.
        """
        named = dict(self._traced.named_parameters())
        for one in named.values():
            one.requires_grad_()
        with torch.enable_grad():
            value = self.values([at], {self.picture: picture})[at]
        made = torch.autograd.grad(value, list(named.values()), derivatives, allow_unused=True)
        for one in named.values():
            one.requires_grad = False
        return {name: one for name, one in zip(named, made, strict=True) if one is not None}

    def above(self, wanted: Collection[str], given: frozenset[str]) -> set[str]:
        """Return the nodes that ``wanted`` are made of, up to those that are given; these are among them."""
        needed, left = set[str](), list(wanted)
        while left:
            name = left.pop()
            if name not in needed:
                needed.add(name)
                left += [] if name in given else [one.name for one in self.nodes[name].all_input_nodes]
        return needed

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each node's value for one picture, without the batch."""
        return {name: tuple(one.shape[1:]) for name, one in self._seen[0].items() if isinstance(one, Tensor)}

    @property
    def like(self) -> Tensor:
        """A tensor of the type and device of all values."""
        return next(self._traced.parameters()).detach()

    def _tried(self) -> dict[str, str]:
        """Return the kind of each operation.

        Raises:
            UserError: there is one of no kind.
        """
        draws = stream(0, "residual structure")
        pictures = [(size * draws.normal(1, *self.shape)).to(self.like) for size in SIZES]
        names = [name for name, node in self.nodes.items() if node.op != "output"]
        try:
            with torch.no_grad():
                self._seen = [self.values(names, {self.picture: one}) for one in pictures]
                kinds = {name: self._kind(name) for name in names if self.nodes[name].op.startswith("call")}
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as failed:
            raise UserError(
                f"{self.who}: the network does not take a picture of {'x'.join(map(str, self.shape))} in float64: "
                f"{str(failed).splitlines()[0]}"
            ) from None
        wrong = [name for name, kind in kinds.items() if not kind]
        if wrong:
            raise UserError(
                f"{self.who} needs a network of {FORM}; '{self._named(wrong[0])}' is none of these: choose another "
                "attack or model"
            )
        return kinds

    def _kind(self, name: str) -> str:
        node = self.nodes[name]
        first, second = self._seen
        if not isinstance(first[name], Tensor):
            return AFFINE  # a shape, or another number that no picture changes
        if "max_pool2d" in str(node.target).lower() or isinstance(self.layer(node), nn.MaxPool2d):
            return MAX
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: _middle(first[one.name], second[one.name]))
        middle = getattr(self._run, node.op)(node.target, args, kwargs)
        if near(middle, _middle(first[name], second[name])):
            return AFFINE
        sources = list(node.all_input_nodes)
        cut = len(sources) == 1 and all(near(seen[name], seen[sources[0].name].clamp(min=0)) for seen in self._seen)
        return RELU if cut else ""

    def _named(self, name: str) -> str:
        node = self.nodes[name]
        return str(node.target) if node.op == "call_module" else name

    def layer(self, node: fx.Node) -> nn.Module | None:
        """Return the layer that a node calls; None where it calls a function."""
        return self._traced.get_submodule(str(node.target)) if node.op == "call_module" else None


def _traced(network: nn.Module, who: str) -> fx.GraphModule:
    """Return a trace in which no operation overwrites what it is given.

    Raises:
        UserError: there is no trace, e.g. of a network that looks at its values.
    """
    network = deepcopy(network).eval().double().requires_grad_(requires_grad=False)
    for module in network.modules():
        if getattr(module, "inplace", False):
            module.inplace = False  # type: ignore[assignment]
    try:
        traced = fx.symbolic_trace(network)
    # somebody else's network may do anything with the stand-ins that a trace is made with
    except Exception as failed:  # noqa: BLE001
        said = str(failed).splitlines() or [type(failed).__name__]
        raise UserError(f"{who} needs a network that torch.fx can trace: {said[0]}") from None
    for node in traced.graph.nodes:
        node.target = IN_PLACE.get(node.target, node.target)
        if "inplace" in node.kwargs:
            node.kwargs = {**node.kwargs, "inplace": False}
    traced.recompile()
    return traced


def _middle(first: Any, second: Any) -> Any:
    return (first + second) / 2 if isinstance(first, Tensor) and first.is_floating_point() else first


def near(first: Tensor, second: Tensor) -> bool:
    """Tell whether two tensors are the same but for rounding."""
    return first.shape == second.shape and float((first - second).norm()) <= EXACT * max(1.0, float(second.norm()))
