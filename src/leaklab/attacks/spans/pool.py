"""Prefixes that may be chosen, one after the other: a chosen one brings its extensions by one token."""

from typing import Literal

import torch
from torch import Tensor

from leaklab.attacks.spans.prefixes import Prefixes, outcomes
from leaklab.attacks.spans.span import Accepted
from leaklab.models.text.first_block import FirstBlock


class Pool:
    """All first tokens, and what is behind the chosen prefixes.

    Attributes:
        chosen: numbers of the chosen ones.
        inputs: of the first perceptron, or of the second block's attention, [N, d].
    """

    def __init__(self, block: FirstBlock, accepted: Accepted, part: Literal["mlp", "attention"]) -> None:
        self.block, self.accepted, self.chosen = block, accepted, list[int]()
        self._inputs = block.second if part == "mlp" else block.onward
        no, none = torch.zeros(0, dtype=torch.int64), block.words[:0]
        self._tokens, self._parents, self._places = no, no, no
        self._keys = self._values = torch.zeros(0, dtype=torch.float64)
        self.inputs = none

    def extend(self, number: int) -> Tensor:
        """Choose a prefix, none with -1, and add its extensions by one token; return their inputs [n, d].

        Without places a token sees nothing new in its own repetition, which is none then.
        """
        if number >= 0:
            self.chosen.append(number)
        path = self._path(number)
        tokens = self.accepted.at(len(path)) if len(path) < self.block.positions else self._tokens[:0]
        if path and not len(self.block.places) and len(set(self._tokens[path].tolist())) == 1:
            tokens = tokens[tokens != self._tokens[path[0]]]
        if len(tokens) == 0:
            return self.inputs[:0]
        places = torch.full_like(tokens, len(path))
        query, key, value = self.block.attention(tokens, places)
        seen = torch.tensor([path], dtype=torch.int64)
        outcome = outcomes((query, key, value), (self._keys, self._values), seen)[0]
        inputs = self._inputs(self.block.between(self.block.embedded(tokens, places), outcome))
        self._tokens, self._places = torch.cat([self._tokens, tokens]), torch.cat([self._places, places])
        self._parents = torch.cat([self._parents, torch.full_like(tokens, number)])
        self._keys, self._values = torch.cat([self._keys, key]), torch.cat([self._values, value])
        self.inputs = torch.cat([self.inputs, inputs])
        return inputs

    def tree(self, numbers: list[int]) -> Prefixes:
        """Return those of some prefixes whose shorter ones are among them too."""
        kept: dict[int, int] = {}
        for number in sorted(numbers, key=lambda one: int(self._places[one])):
            if (parent := int(self._parents[number])) < 0 or parent in kept:
                kept[number] = len(kept)
        rows = torch.tensor(list(kept), dtype=torch.int64)
        parents = torch.tensor([kept.get(parent, -1) for parent in self._parents[rows].tolist()], dtype=torch.int64)
        return Prefixes(self._tokens[rows], parents, self._places[rows], torch.zeros(len(rows), dtype=torch.float64))

    def _path(self, number: int) -> list[int]:
        path = []
        while number >= 0:
            path.append(number)
            number = int(self._parents[number])
        return path[::-1]
