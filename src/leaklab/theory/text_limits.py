"""Where the exact reading of sentences ends: noise, dropped entries, local steps and tokens, by bisection.

Three things end one after the other, and each is looked for alone: the *certificate* that all sentences are right, the
*sentences*, all exact and in order, and the *words*, the set of tokens. The attacker is ``attacks/spans``: a reading
where a rank is told, the nearest prefixes where none is, and else a ranking by leading directions.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import sqrt
from statistics import median
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.spans.moved import midway
from leaklab.attacks.spans.reading import Reading, read_or_rank
from leaklab.defenses.base import ClientContext
from leaklab.defenses.outpost import GradientCompression
from leaklab.models.text.decoders import Gpt2, Llama, gradients_of
from leaklab.records.bounds import Count, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Check, Clients, Number, Track

Update = dict[str, Tensor]
Holds = Callable[[Reading, Tensor], bool]
FAMILIES = {"gpt2": Gpt2, "llama": Llama}
FEWEST_WORDS = 0.9
"""Words stand while this much of them is found, and this much of what is found is theirs."""

NOISE = (1e-9, 10.0)
"""Least and greatest length of the noise over the update's; on a logarithmic scale."""

STATISTICS: dict[str, Callable[[Iterable[float]], float]] = {"": median, "_low": min, "_high": max}


@dataclass(frozen=True)
class TextLimits:
    """Looks for the largest noise, share dropped, number of steps and of tokens at which a batch is still read.

    Token ids are drawn evenly, without the padding, as a network with random weights knows no language.

    Attributes:
        network: family of the decoder; two blocks, 4 heads, random weights, loss of the next token, float32.
        width: of the network, d.
        vocabulary: rows of the word table.
        sentences: B, in the batch.
        length: L, tokens of each.
        batches: repetitions, each with weights and sentences of its own.
        halvings: of the interval in which a limit is looked for.
        rate: of the local steps, where there are several.
        most_steps: that are tried.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=250.0)

    network: Literal["gpt2", "llama"] = "gpt2"
    width: Count = 256
    vocabulary: Count = 8_000
    sentences: Count = 4
    length: Count = 16
    batches: Count = 5
    halvings: Count = 8
    rate: Positive = 0.01
    most_steps: Count = 32

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return the limits: ``certificate``, ``sentences`` and ``words``, by row ``limit``.

        Each is a median over the batches, ``..._low`` and ``..._high`` are the extremes; 0 where even the easiest is
        not read. ``noise``: length of the noise over that of the update. ``multiplier``: the same noise as the noise
        multiplier of DP-SGD, for a mean of the batch whose clipping bound is its length. ``dropped``: share of each
        tensor's entries. ``steps``: of SGD on the batch, of which the change of the weights is seen. ``tokens``: those
        that are inputs, all but each sentence's last, in one step, over the width.

        Args:
            seed: of weights, sentences and noise.
            clients: not used.
            track: wraps the loop over batches.

        Raises:
            UserError: sentences of one token, which has no next one; or tokens of a batch that reach the width.
        """
        if self.length < 2 or self.sentences * self.length >= self.width:
            raise UserError(
                f"check text-limits: {self.sentences} x {self.length} tokens at width {self.width}: take sentences "
                "of at least 2, fewer than the width together"
            )
        found: dict[str, list[dict[str, float]]] = {}
        for batch in track(range(self.batches), self.batches, "batches"):
            for limit, values in _Case(self, seed, batch).limits():
                found.setdefault(limit, []).append(values)
        for limit, several in found.items():
            for what in WHAT:
                ends = [one[what] for one in several]
                for end, statistic in STATISTICS.items():
                    yield Number(what + end, statistic(ends), {"limit": limit}, n=len(ends))


class _Case:
    """One network and one batch, whose update is made worse until nothing is read."""

    def __init__(self, check: TextLimits, seed: int, batch: int) -> None:
        self.check, self.draws = check, (seed, "text-limits", batch)
        positions = max(check.length, 8)
        built = FAMILIES[check.network](width=check.width, positions=positions, loss="next-token")
        self.network = built.initialised(check.vocabulary, 2, seed + batch)
        self.ids = self._sentences(check.sentences)
        self.update = gradients_of(self.network, self.ids, None)
        self.length = sqrt(sum(float(value.double().square().sum()) for value in self.update.values()))
        self.entries = sum(value.numel() for value in self.update.values())

    def _sentences(self, number: int) -> Tensor:
        return stream(*self.draws, "tokens").integers(1, self.check.vocabulary, number, self.check.length)

    def limits(self) -> Iterator[tuple[str, dict[str, float]]]:
        least, greatest = NOISE
        noise = self._ends(lambda share: self._noisy(least * (greatest / least) ** share), self.ids)
        noise = {what: least * (greatest / least) ** share if share else 0.0 for what, share in noise.items()}
        yield "noise", noise
        yield "multiplier", {what: self.check.sentences * one / sqrt(self.entries) for what, one in noise.items()}
        yield "dropped", self._ends(self._pruned, self.ids)
        yield "steps", self._most(self._stepped, self.check.most_steps, 1)
        inputs = self.check.length - 1
        yield "tokens", self._most(self._larger, self.check.width // inputs + 1, inputs / self.check.width)

    def _ends(self, worse: Callable[[float], Update], ids: Tensor) -> dict[str, float]:
        """Return where each of the three ends, between 0 and 1, by halving the interval."""
        seen: dict[float, Reading] = {}

        def holds(what: Holds, share: float) -> bool:
            if share not in seen:
                seen[share] = self._read(worse(share), ids)
            return what(seen[share], ids)

        found = {}
        for name, what in WHAT.items():
            low, high = 0.0, 1.0
            for _ in range(self.check.halvings):
                middle = (low + high) / 2
                low, high = (middle, high) if holds(what, middle) else (low, middle)
            found[name] = low
        return found

    def _most(self, made: Callable[[int], tuple[Reading, Tensor]], greatest: int, unit: float) -> dict[str, float]:
        """Return the largest number up to which each of the three holds without a gap."""
        found, standing = dict.fromkeys(WHAT, 0.0), list(WHAT)
        for number in range(1, greatest + 1):
            reading, ids = made(number)
            standing = [name for name in standing if WHAT[name](reading, ids)]
            found |= dict.fromkeys(standing, number * unit)
            if not standing:
                break
        return found

    def _read(self, update: Update, ids: Tensor, steps: int = 0) -> Reading:
        """Read an update; of so many steps it is a difference of weights, else a gradient."""
        network, change = midway(self.network, update, 1.0, max(steps, 1)), float(steps > 0)
        return read_or_rank(network, update, lambda: ids.shape[1], len(ids), change=change)

    def _noisy(self, level: float) -> Update:
        draws, sigma = stream(*self.draws, "noise"), level * self.length / sqrt(self.entries)
        return {name: value + sigma * draws.normal(*value.shape).to(value) for name, value in self.update.items()}

    def _pruned(self, share: float) -> Update:
        context = ClientContext(scaled_rate=1.0, seed=0, client=0)
        return dict(GradientCompression(dropped=share).gradient(self.update, context))

    def _stepped(self, steps: int) -> tuple[Reading, Tensor]:
        before = {name: value.detach().clone() for name, value in self.network.named_parameters()}
        try:
            for _ in range(steps):
                _step(self.network, gradients_of(self.network, self.ids, None), self.check.rate)
            after = {name: value.detach().clone() for name, value in self.network.named_parameters()}
        finally:
            _set(self.network, before)
        update = {name: before[name] - after[name] for name in self.update}
        return self._read(update, self.ids, steps), self.ids

    def _larger(self, number: int) -> tuple[Reading, Tensor]:
        ids = self._sentences(number)
        return self._read(gradients_of(self.network, ids, None), ids), ids


def _step(network: nn.Module, gradients: Update, rate: float) -> None:
    with torch.no_grad():
        for name, value in network.named_parameters():
            value.sub_(rate * gradients[name])


def _set(network: nn.Module, weights: Update) -> None:
    with torch.no_grad():
        for name, value in network.named_parameters():
            value.copy_(weights[name])


# What ends: tells of a reading of a batch, int64 [B, L], whether it holds.


def _certificate(reading: Reading, ids: Tensor) -> bool:
    return reading.proven and _sentences(reading, ids)


def _sentences(reading: Reading, ids: Tensor) -> bool:
    return set(reading.sentences) == {tuple(row) for row in ids.tolist()}


def _words(reading: Reading, ids: Tensor) -> bool:
    true = set(ids.flatten().tolist())
    told = set(chain.from_iterable(reading.sentences)) or reading.tokens
    return len(true & told) >= FEWEST_WORDS * max(len(true), len(told))


WHAT: dict[str, Holds] = {"certificate": _certificate, "sentences": _sentences, "words": _words}

PLUGIN: type[Check] = TextLimits
