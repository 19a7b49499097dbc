"""The objective of gradient matching for text: embeddings of a sentence in, matching loss and its derivative out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.matching.gradients import soft_cross_entropy
from leaklab.attacks.search.restarts import Objective
from leaklab.attacks.starts import StartRecord
from leaklab.attacks.text.distances import TextDistance
from leaklab.models.text.base import WORD_TABLE, logits_of
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class SentenceFrame:
    """What is known of a sentence: where it starts and ends. Padding beyond the end has no part in any gradient.

    Attributes:
        length: tokens with start and end.
        start: id of the token at the first place.
        end: id of the token at the last place.
    """

    length: int
    start: int
    end: int

    @property
    def unknown(self) -> int:
        """Number of tokens that are searched."""
        return self.length - 2


class TextInversion:
    """Matching loss of S trials (one sentence each) as a function of their unknowns [S, n], trial after trial.

    The unknowns of a trial are the embeddings of the tokens between start and end, in units of the word table's
    standard deviation, followed by the label's logits where the label is not known. As n differs from sentence to
    sentence, trials of one call have one length. The word table's own gradient is left out: it belongs to ids.

    Args:
        network: of ``models/text``, with its weights set.
        observed: parameter name -> observed gradients [T, ...].
        frames: known facts of each trial's sentence.
        num_classes: K.
        distance: see ``distances``.
        labels: [T] known labels, or None to search soft labels.
        norm_weight: weight of (mean norm of the embeddings / mean norm of the table's rows - 1)^2, LAMP's prior,
            relative to the loss of a zero gradient (1 for the mean cosine).
    """

    def __init__(
        self,
        network: nn.Module,
        observed: Mapping[str, Tensor],
        frames: list[SentenceFrame],
        num_classes: int,
        distance: TextDistance,
        labels: Tensor | None = None,
        norm_weight: float = 0.0,
    ) -> None:
        self.network, self.frames, self.num_classes = network, frames, num_classes
        self.distance, self.labels, self.norm_weight = distance, labels, norm_weight
        _check(observed, [name for name, _ in network.named_parameters()], frames)
        self._table = network.get_parameter(WORD_TABLE).detach()
        self._unit = self._table.std()
        self._row_norm = self._table.norm(dim=1).mean()
        self._parameters = {
            name: value.detach().requires_grad_() for name, value in network.named_parameters() if name != WORD_TABLE
        }
        self._observed = [observed[name] for name in self._parameters]
        self._nothing: dict[int, Tensor] = {}

    def loss_of_nothing(self, row: int) -> Tensor:
        """Return the matching loss of a zero gradient for a trial, a scalar."""
        if row not in self._nothing:
            observed = [tensor[row] for tensor in self._observed]
            self._nothing[row] = self.distance([torch.zeros_like(value) for value in observed], observed)
        return self._nothing[row]

    def unknowns(self, row: int) -> int:
        """Return the number of unknowns of a trial."""
        embeddings = self.frames[row].unknown * self._table.shape[1]
        return embeddings if self.labels is not None else embeddings + self.num_classes

    def embeddings(self, point: Tensor, row: int) -> Tensor:
        """Return the searched embeddings [L - 2, d] that a trial's unknowns [n] mean."""
        size = self.frames[row].unknown * self._table.shape[1]
        return point[:size].view(-1, self._table.shape[1]) * self._unit

    def target(self, point: Tensor, row: int) -> Tensor:
        """Return the class probabilities [K] of a trial."""
        if self.labels is None:
            return torch.softmax(point[-self.num_classes :], 0)
        return F.one_hot(self.labels[row], self.num_classes).to(point.dtype)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the matching loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        results = [self._one(point, row) for point, row in zip(points, rows.tolist(), strict=True)]
        values, derivatives = zip(*results, strict=True)
        return torch.stack(values), torch.stack(derivatives)

    def _one(self, point: Tensor, row: int) -> tuple[Tensor, Tensor]:
        point = point.detach().requires_grad_()
        searched = self.embeddings(point, row)
        frame = self.frames[row]
        sentence = torch.cat([self._table[[frame.start]], searched, self._table[[frame.end]]])
        logits = logits_of(self.network, sentence[None], parameters=self._parameters)
        loss = soft_cross_entropy(logits[0], self.target(point, row))
        gradients = torch.autograd.grad(loss, list(self._parameters.values()), create_graph=True)
        value = self.distance(gradients, [tensor[row] for tensor in self._observed])
        if self.norm_weight:
            prior = (searched.norm(dim=1).mean() / self._row_norm - 1) ** 2
            value = value + self.norm_weight * self.loss_of_nothing(row) * prior
        (derivative,) = torch.autograd.grad(value, point)
        return value.detach(), derivative


def _check(observed: Mapping[str, Tensor], names: list[str], frames: list[SentenceFrame]) -> None:
    if list(observed) != names:
        raise UserError("the observed gradients are not those of this model's parameters: capture the update again")
    if any(len(value) != len(frames) for value in observed.values()):
        raise UserError(f"{len(frames)} sentences' facts do not fit the observed gradients: give one frame per trial")
    if any(frame.unknown < 1 for frame in frames):
        raise UserError("a sentence of start and end only has nothing to search: leave it out of the trials")
    if not all(value.isfinite().all() for value in observed.values()):
        raise UserError("an observed gradient is not finite: capture the update again")


# AdamW with a linearly falling rate, from several starts per trial: the optimizer of the attacks on text.


@dataclass(frozen=True)
class DescentSettings:
    """How long and how fast.

    Attributes:
        iterations: steps per start.
        restarts: starts per trial; the smallest loss is chosen.
        rate: of the first step, in the units of the unknowns; it falls linearly to 0.
        decay: AdamW's weight decay.
    """

    iterations: int = 1000
    restarts: int = 1
    rate: float = 0.5
    decay: float = 0.0


@dataclass(frozen=True)
class Descended:
    """The best point of one start, [n], and its record."""

    point: Tensor
    record: StartRecord


def descend(objective: Objective, start: Tensor, row: int, number: int, settings: DescentSettings) -> Descended:
    """Minimise the loss of one trial from one start; the best point met counts, not the last.

    Args:
        objective: loss and derivative.
        start: [n].
        row: position of the trial.
        number: of the start, for the record.
        settings: see there.
    """
    point = start.clone()
    rows = torch.tensor([row], device=start.device)
    optimizer = torch.optim.AdamW([point], lr=settings.rate, weight_decay=settings.decay)
    best, best_point, evaluations, stopped = math.inf, start.clone(), 0, "budget"
    for step in range(settings.iterations):
        value, derivative = objective(point[None], rows)
        evaluations += 1
        if not (value.isfinite().all() and derivative.isfinite().all()):
            stopped = "diverged"
            break
        if float(value) < best:
            best, best_point = float(value), point.clone()
        optimizer.param_groups[0]["lr"] = settings.rate * (1 - step / settings.iterations)
        point.grad = derivative[0]
        optimizer.step()
    diverged = stopped == "diverged"
    return Descended(best_point, StartRecord(row, number, best, evaluations, evaluations, diverged, stopped))


def best_of_starts(
    objective: Objective, start_of: Callable[[int, int], Tensor], row: int, settings: DescentSettings
) -> tuple[Tensor, list[StartRecord]]:
    """Return the best point of a trial over its starts, by the attack's own loss, and all records.

    Raises:
        UserError: no iterations, no starts, or a rate or decay that is no size.
    """
    if settings.iterations < 1 or settings.restarts < 1 or settings.rate <= 0 or settings.decay < 0:
        raise UserError(f"{settings}: choose at least one iteration and one start, a positive rate, a decay from 0")
    ended = [descend(objective, start_of(row, n), row, n, settings) for n in range(settings.restarts)]
    return min(ended, key=lambda one: one.record.matching_loss).point, [one.record for one in ended]
