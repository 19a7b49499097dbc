"""Prefixes that may be chosen, one after the other: a chosen one brings its extensions by one token."""

from typing import Literal

import torch
from torch import Tensor

from leaklab.attacks.spans.prefixes import Prefixes, outcomes
from leaklab.attacks.spans.span import Accepted
from leaklab.models.text.first_block import FirstBlock


class Pool:
    """All first tokens, and what is behind the chosen prefixes; each has a number, in the order in which they come.

    Attributes:
        chosen: numbers of the chosen ones.
    """

    def __init__(self, block: FirstBlock, accepted: Accepted, part: Literal["mlp", "attention"]) -> None:
        """Begin with no prefix; ``part`` is the first perceptron or the second block's attention."""
        self.block, self.accepted, self.chosen = block, accepted, list[int]()
        self._inputs = block.second if part == "mlp" else block.onward
        self._tokens, self._parents, self._places = list[int](), list[int](), list[int]()
        self._cache: list[tuple[Tensor, Tensor]] = []

    def extend(self, number: int) -> Tensor:
        """Choose a prefix, none with -1, and add its extensions by one token; return their inputs [n, d].

        Without places a token sees nothing new in its own repetition, which is none then.
        """
        if number >= 0:
            self.chosen.append(number)
        path = self._path(number)
        tokens = self.accepted.at(len(path)) if len(path) < self.block.positions else self.accepted.tokens[:0]
        before = {self._tokens[one] for one in path}
        if not len(self.block.places) and len(before) == 1:
            tokens = tokens[tokens != before.pop()]
        if not len(tokens):
            return self.block.words[:0]
        places = torch.full_like(tokens, len(path))
        query, key, value = self.block.attention(tokens, places)
        cached = [self._cache[one] for one in path] or [(key[:0], value[:0])]
        cache = torch.cat([keys for keys, _ in cached]), torch.cat([values for _, values in cached])
        outcome = outcomes((query, key, value), cache, torch.arange(len(path))[None])[0]
        inputs: Tensor = self._inputs(self.block.between(self.block.embedded(tokens, places), outcome))
        self._tokens += tokens.tolist()
        self._places += places.tolist()
        self._parents += [number] * len(tokens)
        self._cache += zip(torch.split(key, 1), torch.split(value, 1), strict=True)
        return inputs

    def tree(self, numbers: list[int]) -> Prefixes:
        """Return those of some prefixes whose shorter ones are among them too."""
        kept: dict[int, int] = {}
        for number in sorted(numbers, key=lambda one: self._places[one]):
            if (parent := self._parents[number]) < 0 or parent in kept:
                kept[number] = len(kept)
        tokens, parents, places = (
            torch.tensor(row, dtype=torch.int64)
            for row in (
                [self._tokens[number] for number in kept],
                [kept.get(self._parents[number], -1) for number in kept],
                [self._places[number] for number in kept],
            )
        )
        return Prefixes(tokens, parents, places, torch.zeros(len(kept), dtype=torch.float64))

    def _path(self, number: int) -> list[int]:
        path = []
        while number >= 0:
            path.append(number)
            number = self._parents[number]
        return path[::-1]
