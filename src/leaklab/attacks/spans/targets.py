"""The last token of a sentence under next-token loss: it is no input that anything comes back to, but it is a target.

The sentences but for their last tokens are known, so are the activations in front of the last block's second matrix,
and its gradient A' D gives by least squares what came back to every place: D_i = s J_i'(n p_i W - sum_y n_y W[y]) with
the Jacobian J_i of the last normalisation, the prediction p_i and the n_y sentences that go on with y. All tokens are
tried at once; how many targets a place has, the largest drop of what is left over says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from leaklab.attacks.least_squares import least_squares
from leaklab.attacks.spans.prefixes import Prefixes
from leaklab.attacks.spans.span import SMALLEST_GAP
from leaklab.models.text.decoders import gradients_of
from leaklab.models.text.first_block import FirstBlock, Normalisation

MOST_TARGETS = 8
"""How many sentences may end behind the same prefix."""
PLACES_TOGETHER = 64

Sentences = dict[tuple[int, ...], int]
"""Sentences with their counts."""


@dataclass(frozen=True, eq=False)
class LastStates:
    """What the network holds at each of N prefixes.

    Attributes:
        activations: in front of the last block's second matrix, [N, hidden].
        states: in front of the last normalisation, [N, d].
    """

    activations: Tensor
    states: Tensor


def last_states(block: FirstBlock, prefixes: Prefixes) -> LastStates:
    """Return the network's last states at the end of each prefix; every sentence goes through it once."""
    network = block.network
    taken: dict[str, Tensor] = {}
    last = block.names.of("last", block.blocks - 1)[0].removesuffix(".weight")
    hooks = [
        network.get_submodule(name).register_forward_pre_hook(lambda _, given, at=at: taken.update({at: given[0]}))
        for at, name in (("activations", last), ("states", block.names.final))
    ]
    found: dict[str, Tensor] = {}
    for leaf in prefixes.leaves():
        path = prefixes.path(leaf)
        with torch.no_grad():
            network.base_model(input_ids=prefixes.tokens[path][None])  # type: ignore[operator]
        for at, value in taken.items():
            found.setdefault(at, value.new_zeros(len(prefixes), value.shape[-1]))[path] = value[0]
    for hook in hooks:
        hook.remove()
    return LastStates(found["activations"], found["states"])


def read_targets(block: FirstBlock, prefixes: Prefixes, gradient: Tensor) -> Sentences:
    """Return the sentences, last tokens included, with counts; where no token ends a prefix it is left as it is.

    Args:
        block: of a network with next-token loss.
        prefixes: the sentences without their last tokens.
        gradient: of the last block's second matrix, [hidden, d], times any factor.
    """
    held = last_states(block, prefixes)
    norm = Normalisation.of(block.network.get_submodule(block.names.final))
    back = least_squares(held.activations.T, gradient.double())
    goes_on: list[list[int]] = [[] for _ in range(len(prefixes))]
    for number, parent in enumerate(prefixes.parents.tolist()):
        if parent >= 0:
            goes_on[parent].append(number)
    places = Places.of(block, norm, held.states, back)
    known = [[int(prefixes.tokens[child]) for child in children] for children in goes_on]
    left = torch.tensor([places.fitted(number, tokens)[0] for number, tokens in enumerate(known)])
    inner = torch.tensor([bool(children) for children in goes_on])
    usual = float(left[inner].median()) if bool(inner.any()) else 0.0
    ends = [number for number in range(len(prefixes)) if not inner[number] or left[number] > SMALLEST_GAP * usual]
    coefficients: dict[int, dict[int, float]] = {}
    for number in ends:
        coefficients[number] = places.ended(number, known[number])
    unit = float(np.median([value for found in coefficients.values() for value in found.values()] or [1.0]))
    sentences: Sentences = {}
    for number, found in coefficients.items():
        for token, value in found.items():
            sentences[(*prefixes.sentence(number), token)] = max(1, round(value / unit))
        if not found and not inner[number]:
            sentences[prefixes.sentence(number)] = 1
    return sentences


@dataclass(frozen=True, eq=False)
class Places:
    """What came back to every place, in the space in which the last normalisation lets a difference through.

    Attributes:
        table: output rows times the normalisation's weight, centred, [V, d].
        towards: normalised states without weight and shift, [N, d]: a direction in which nothing comes back.
        predicted: what the prediction takes of the table, [N, d].
        back: what came back times the divisor, [N, d].
    """

    table: Tensor
    towards: Tensor
    predicted: Tensor
    back: Tensor

    @classmethod
    def of(cls, block: FirstBlock, norm: Normalisation, states: Tensor, back: Tensor) -> "Places":
        """Return the places of N prefixes with last states [N, d]."""
        output = block.network.get_output_embeddings().weight  # type: ignore[operator]
        centred = norm.centre(states)
        sizes = norm.size(centred)
        inputs = norm(states)
        chances = torch.cat([(part @ output.T).softmax(1) @ output for part in torch.split(inputs, PLACES_TOGETHER)])
        towards = centred / sizes
        return cls(norm.centre(norm.weight * output), towards, norm.centre(norm.weight * chances), sizes * back)

    def through(self, number: int, vectors: Tensor) -> Tensor:
        """Return vectors [n, d] as they come through a place's normalisation: without its own direction."""
        along = self.towards[number]
        return vectors - (vectors @ along / along.square().sum())[:, None] * along

    def fitted(self, number: int, tokens: list[int]) -> tuple[float, np.ndarray, Tensor]:
        """Return what the targets ``tokens`` leave over of a place, over the whole, their weights, and the rest [d]."""
        wanted = self.through(number, self.back[number][None])[0]
        if not tokens:
            return 1.0, np.zeros(0), wanted
        columns = self.through(number, self.predicted[number] - self.table[torch.tensor(tokens)])
        weights, _ = nnls(columns.T.numpy(), wanted.numpy())
        rest = wanted - torch.as_tensor(weights) @ columns
        return float(rest.norm() / wanted.norm().clamp(min=1e-300)), weights, rest

    def ended(self, number: int, known: list[int]) -> dict[int, float]:
        """Return the targets of a place besides the known ones, with weights; none if none explains what is left."""
        tokens, fits = list(known), []
        left, weights, rest = self.fitted(number, tokens)
        along, ahead = self.towards[number], self.through(number, self.predicted[number][None])[0]
        lengths = self.table.square().sum(1) - (self.table @ along).square() / along.square().sum()
        lengths = (ahead.square().sum() - 2 * self.table @ ahead + lengths).clamp(min=1e-300).sqrt()
        for _ in range(MOST_TARGETS):
            matches = (rest @ ahead - self.table @ rest) / lengths
            matches[tokens] = -torch.inf
            tokens.append(int(matches.argmax()))
            before = left
            left, weights, rest = self.fitted(number, tokens)
            fits.append((before / max(left, 1e-16), len(tokens), weights))
            if fits[-1][0] < SMALLEST_GAP <= max(drop for drop, _, _ in fits):
                break
        drop, count, weights = max(fits, key=lambda fit: fit[0])
        if drop < SMALLEST_GAP:
            return {}
        new = range(len(known), count)
        return {tokens[place]: float(weights[place]) for place in new if weights[place] > 0}


HEAD = "classifier"
"""The last layer of an encoder's classifier."""


def read_labels(network: nn.Module, sentences: Sentences, update: Mapping[str, Tensor]) -> Tensor | None:
    """Return the classes of an encoder's sentences, int64 [B], from its head's gradient; None where it is not sent.

    The gradient is D' F with the features F: least squares gives D, in which only the true class's entry is negative.
    """
    if f"{HEAD}.weight" not in update:
        return None
    taken: list[Tensor] = []
    hook = network.get_submodule(HEAD).register_forward_pre_hook(lambda _, given: taken.append(given[0]))
    with torch.no_grad():
        for sentence in sentences:
            network(input_ids=torch.tensor([sentence]))
    hook.remove()
    return least_squares(torch.cat(taken).T.double(), update[f"{HEAD}.weight"].T.double()).argmin(1)


def recomputed(
    network: nn.Module, sentences: Sentences, update: Mapping[str, Tensor], labels: Tensor | None = None
) -> float:
    """Return how far an update is from that of ``sentences``, over its length, at the best factor.

    It is 0 for the true sentences with their counts, up to rounding.

    Args:
        network: with the broadcast weights.
        sentences: with counts.
        update: gradients by name, times any factor.
        labels: their classes [B]; None for next-token loss.
    """
    rows = [torch.tensor(sentence) for sentence, count in sentences.items() for _ in range(count)]
    own = gradients_of(network, nn.utils.rnn.pad_sequence(rows, batch_first=True), labels)
    names = [name for name in own if name in update]
    ours = torch.cat([own[name].flatten().double() for name in names])
    theirs = torch.cat([update[name].flatten().double() for name in names])
    factor = (ours @ theirs) / ours.square().sum()
    return float((factor * ours - theirs).norm() / theirs.norm())
