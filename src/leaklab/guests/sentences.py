"""What attackers make of updates of sentences: tokens that explain them best, one place after the other.

The gradient of the table of words has a row for each token, and that of the table of positions one for each place. A
place's row is part of its token's, so their cosine says which tokens may stand there, and the length of a token's row
whether it is in the sentence at all. Among the likeliest of them the distance decides that knows the defense, token by
token and by exchanging two of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.matching.distances import Differentiated, Distance, Likelihood
from leaklab.data.text.corpus import END, SPECIAL, START
from leaklab.defenses.base import loaded
from leaklab.guests.calls import OWN_HOOKS, Subject, has
from leaklab.guests.exposure import OF_PLAIN, Attacker, Exposure, Reading
from leaklab.guests.moments import Ground
from leaklab.models.text.base import POSITION_TABLE, WORD_TABLE
from leaklab.records.errors import UserError

LIKELY, LONGEST, SWEEPS = 6, 12, 3
"""Tokens that are tried at a place: the likeliest there, and those with the longest rows; how often it has its turn."""
ERROR = 0.003
"""Of an entry, relative to its tensor, where a likelihood is asked: that of the last stage of a search."""

Value = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class Read(Reading):
    """What an attacker made of updates of sentences: ``images`` are ids [T, L], with start and end."""

    def scores(self, truth: Tensor) -> list[float]:
        """Return the percent of each sentence's tokens that stand at their place."""
        found: list[float] = (100 * (self.images == truth)[:, 1:-1].double().mean(1)).tolist()
        return found

    def errors(self, truth: Tensor) -> list[float]:
        """Return the share of each sentence's tokens that do not."""
        return [1 - score / 100 for score in self.scores(truth)]


@dataclass
class TextExposure(Exposure):
    """A network of texts and a guest's defense on it; see ``Exposure``. An attacker's search is that of tokens."""

    SEARCH: ClassVar[str] = "token-search"

    def read(
        self,
        attacker: Attacker,
        updates: Sequence[Mapping[str, Tensor]],
        evaluations: int | None = None,
        labels: Tensor | None = None,
    ) -> Read:
        """Return what an attacker makes of updates, one sentence each; labels are read, too."""
        stage = self.original if attacker.kind in OF_PLAIN else self.stage
        network = loaded(stage.build, stage.weights)
        search = _Search(network, self.arena.corpus.ids[0].shape[1], self.arena.classes, attacker.distance)
        found = [search.read(update) for update in updates]
        ids, read = (torch.stack(parts) for parts in zip(*found, strict=True))
        return Read(attacker, ids, read)

    def guesses(self) -> Read:
        """Return the better of two guesses of each sentence: the commonest public tokens of all, or of its class."""
        public, truth, labels = self.arena.public, self.private.images, self.private.labels
        nobody = Attacker("guess", "commonest tokens", AnnealedMap())
        every = public.images.mode(0).values
        alike = (public.images[public.labels == label] for label in labels.tolist())
        of_class = torch.stack([own.mode(0).values if len(own) else every for own in alike])
        both = [Read(nobody, ids, labels) for ids in (every.expand_as(truth), of_class)]
        first, second = (torch.tensor(one.scores(truth)) for one in both)
        return Read(nobody, torch.where((first >= second)[:, None], both[0].images, of_class), labels)

    def pictures(self, reading: Reading) -> dict[str, Any]:
        """Return the sentences as they were read: tokens, and whether each stands at its place."""
        vocabulary, truth = self.arena.corpus.vocabulary, self.private.images
        words = [vocabulary.decode(ids) for ids in reading.images.tolist()]
        right = (reading.images == truth)[:, 1:-1].tolist()
        told = [[list(pair) for pair in zip(*both, strict=True)] for both in zip(words, right, strict=True)]
        return {"images": told, "of_images": reading.scores(truth)}


def exposure_of(subject: Subject, network: str, seed: int, arena: Ground) -> Exposure:
    """Return a defense on a network of an arena, of images or of sentences.

    Raises:
        UserError: it changes what sentences have not.
    """
    if not arena.file.sentences:
        return Exposure(subject, network, seed, arena=arena)
    if hooks := [hook for hook in OWN_HOOKS if has(subject.new(), hook)]:
        raise UserError(
            f"{subject.guest.file}: an arena of sentences takes defenses of updates, and this one has the hook "
            f"{hooks[0]}: judge it in an arena of images"
        )
    return TextExposure(subject, network, seed, arena=arena)


@dataclass
class _Search:
    """The search of one attacker.

    Attributes:
        network: as the server sent it.
        length: tokens of a sentence, with start and end.
        classes: of sentences.
        knows: the loss that knows the defense; None for squared differences.
    """

    network: nn.Module
    length: int
    classes: int
    knows: Distance | Likelihood | None
    seen: dict[tuple[int, ...], float] = field(default_factory=dict)

    def read(self, update: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return ids [L] and label of the sentence that explains an update best."""
        likely, starts = self._likely(update)
        self.seen = {}
        pairs = ((ids, label) for ids in starts for label in range(self.classes))
        ids, label = min(pairs, key=lambda pair: self._explains(pair[0], pair[1], update))
        for _ in range(SWEEPS):
            before = ids
            for place in range(1, self.length - 1):
                tried = [ids.index_fill(0, torch.tensor([place]), token) for token in likely[place - 1].tolist()]
                # its own place first: a defense under which all tell the same moves nothing
                ids = min([ids, *tried, *_exchanged(ids, place)], key=lambda one: self._explains(one, label, update))
            label = min(range(self.classes), key=lambda one: self._explains(ids, one, update))
            if torch.equal(ids, before):
                break
        return ids, torch.tensor(label)

    def _likely(self, update: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the likeliest tokens of each place between start and end, [L - 2, n], and sentences to begin with.

        These have the likeliest token at each place, or each token of the longest rows once.
        """
        nothing = {name: torch.zeros_like(self.network.get_parameter(name)) for name in (WORD_TABLE, POSITION_TABLE)}
        words, places = ({**nothing, **update}[name].nan_to_num(nan=0.0) for name in nothing)
        lengths = words.norm(dim=1)
        cosines = F.normalize(places[1 : self.length - 1], dim=1) @ F.normalize(words, dim=1).T
        for scores in (lengths, cosines):
            scores[..., : len(SPECIAL)] = -torch.inf
        most = len(words) - len(SPECIAL)
        longest = lengths.topk(min(LONGEST, most)).indices
        near = cosines.topk(min(LIKELY, most), dim=1).indices
        once = near[:, 0]
        if len(longest) >= len(cosines):
            once = longest[torch.from_numpy(linear_sum_assignment(-cosines[:, longest].numpy())[1])]
        ends = torch.tensor([START]), torch.tensor([END])
        starts = [torch.cat([ends[0], inner, ends[1]]) for inner in (near[:, 0], once)]
        return torch.cat([near, longest.expand(len(cosines), -1)], 1), starts

    def _explains(self, ids: Tensor, label: int, update: Mapping[str, Tensor]) -> float:
        """Return how badly a sentence explains an update."""
        key = (*ids.tolist(), label)
        if key not in self.seen:
            loss = F.cross_entropy(self.network(ids[None]), torch.tensor([label]))
            parameters = [self.network.get_parameter(name) for name in update]
            found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            value = self._distance([one[None] for one in found], [one[None] for one in update.values()])
            self.seen[key] = float(value.nan_to_num(nan=torch.inf))
        return self.seen[key]

    @cached_property
    def _distance(self) -> Value:
        if self.knows is None:
            return _squared
        weights = {name: value.detach() for name, value in self.network.named_parameters()}
        found = self.knows.widened(ERROR, weights) if isinstance(self.knows, Likelihood) else self.knows
        if isinstance(found, Differentiated):
            return found.value  # nothing is descended: its derivative would be computed in vain
        return lambda gradients, observed: found(gradients, observed)[0]


def _exchanged(ids: Tensor, place: int) -> Iterator[Tensor]:
    """Yield a sentence with the token of a place and a later one exchanged."""
    for other in range(place + 1, len(ids) - 1):
        order = torch.arange(len(ids))
        order[[place, other]] = order[[other, place]]
        yield ids[order]


def _squared(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
    return torch.stack([(g - o).pow(2).flatten(1).sum(1) for g, o in zip(gradients, observed, strict=True)]).sum(0)
