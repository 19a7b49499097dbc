"""The whole attack on text: search embeddings whose gradients match, then read the nearest tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Budget, Streams
from leaklab.attacks.reconstructions import NO_LABEL
from leaklab.attacks.starts import StartRecord, as_tensor, from_tensor, numbered
from leaklab.attacks.text.distances import TEXT_DISTANCES
from leaklab.attacks.text.inversion import DescentSettings, SentenceFrame, TextInversion, best_of_starts
from leaklab.attacks.text.read_out import nearest_tokens, token_bag
from leaklab.models.text.base import WORD_TABLE
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements
from leaklab.records.errors import UserError
from leaklab.records.tensor_algebra import NO_ALGEBRA

PADDING = 0
"""Row of the word table that no sentence uses between start and end."""


@dataclass(frozen=True)
class TextReconstruction:
    """What was found for T trials.

    Attributes:
        tokens: T tensors int64 [L], with the known start and end; several sentences one behind the other.
        labels: int64 [T], known or the largest of the searched logits.
        starts: a record per start; ``trial`` is the trial's number in the capture.
        lengths: T tensors int64 [S], of the sentences that ``tokens`` begin with; what is behind them is in no order.
            Empty for an attack that reads one sentence an update, which is all of ``tokens``.
        certified: T tensors bool [S], which of them the attacker knows to be right; empty like ``lengths``.
    """

    tokens: tuple[Tensor, ...]
    labels: Tensor
    starts: tuple[StartRecord, ...]
    lengths: tuple[Tensor, ...] = ()
    certified: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class TextMatching:
    """Settings of TAG and its relatives; unknowns start at N(0, 1) times the word table's standard deviation.

    Attributes:
        distance: ``tag``, ``tag-squared``, ``profiled-tag`` or ``mean-cosine`` (see ``distances``).
        bag: read out only tokens whose row of the word table has a gradient (see ``tables.token_bag``).
        norm_weight: of the prior on the embeddings' norm; LAMP uses 1.
        iterations: steps per start; the spec of TAG has 1000.
        restarts: starts per trial.
        rate: AdamW's first rate, in standard deviations of the word table. TAG's 0.05 is an absolute number: with a
            random table of spread 0.02 it is 2.5 of these units, finds less and settles at larger losses.
        decay: AdamW's weight decay.
    """

    distance: str = "tag"
    bag: bool = False
    norm_weight: float = 0.0
    iterations: int = 1000
    restarts: int = 1
    rate: float = 0.5
    decay: float = 0.0

    def reconstruct(
        self,
        network: nn.Module,
        observed: Mapping[str, Tensor],
        frames: Sequence[SentenceFrame],
        num_classes: int,
        streams: Streams,
        trials: Sequence[int],
        labels: Tensor | None = None,
    ) -> TextReconstruction:
        """Reconstruct every trial, one after the other.

        Args:
            network: of ``models/text`` with the broadcast weights; a parameter never asks for a gradient here.
            observed: parameter name -> gradients [T, ...].
            frames: known facts of each sentence.
            num_classes: K.
            streams: the attack's random draws; those of a trial depend on its number and the start only.
            trials: number of each trial within the capture.
            labels: int64 [T], or None to search them.

        Raises:
            UserError: an unknown distance, or sizes that do not fit together.
        """
        if self.distance not in TEXT_DISTANCES:
            raise UserError(f"unknown text distance '{self.distance}': choose from {', '.join(TEXT_DISTANCES)}")
        if not len(trials) == len(frames) == (len(frames) if labels is None else len(labels)) or not trials:
            raise UserError(f"{len(trials)} trials, {len(frames)} sentences' facts: give one fact and label per trial")
        distance = TEXT_DISTANCES[self.distance]
        inversion = TextInversion(network, observed, list(frames), num_classes, distance, labels, self.norm_weight)
        settings = DescentSettings(self.iterations, self.restarts, self.rate, self.decay)
        table = network.get_parameter(WORD_TABLE).detach()

        def start_of(row: int, number: int) -> Tensor:
            return streams("start", trials[row], number).normal(inversion.unknowns(row)).to(table)

        tokens, found, records = [], [], []
        for row, frame in enumerate(frames):
            point, ended = best_of_starts(inversion, start_of, row, settings)
            allowed = token_bag(observed[WORD_TABLE][row]) if self.bag else None
            banned = (PADDING, frame.start, frame.end)
            middle = nearest_tokens(inversion.embeddings(point, row), table, allowed, banned)
            tokens.append(torch.cat([middle.new_tensor([frame.start]), middle, middle.new_tensor([frame.end])]))
            found.append(inversion.target(point, row).argmax())
            records += ended
        return TextReconstruction(tuple(tokens), torch.stack(found), numbered(records, trials))


# What every attack plug-in on text is: observation and knowledge in, sentences out.


@dataclass(frozen=True)
class TextCase:
    """All that an attack on text is given.

    Attributes:
        observation: T trials of one sentence or a batch of them each.
        knowledge: what the threat model grants.
        budget: what may be spent: steps per start, and starts.
        streams: the attack's random draws; those of a trial depend on its number only.
        labels: ``searched``, ``inferred`` or ``known`` (see ``specs/text.py``).
    """

    observation: Observation
    knowledge: Knowledge
    budget: Budget
    streams: Streams
    labels: str = "searched"


class TextAttack(Protocol):
    """A plug-in of ``attacks/text``; a frozen dataclass whose fields are its settings.

    Attributes:
        requirements: what the attack asks for, read from its source while planning.
    """

    requirements: ClassVar[Requirements]

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct the private sentences of every trial.

        Raises:
            UserError: a fact is needed and withheld, or the attack does not fit the observation.
        """
        ...


# An attack on text in parts: finished sentences are kept, so that a killed job goes on (``records/kept.py``).


def unread(observation: Observation) -> TextReconstruction:
    """Return the answer to an update that says nothing: no token, no label, no start."""
    (trial,) = observation.trials
    start = StartRecord(trial, 0, nan, 0, 0, False, observation.silent[trial])
    return TextReconstruction((torch.empty(0, dtype=torch.int64),), torch.tensor([NO_LABEL]), (start,))


def lost(observation: Observation) -> TextReconstruction:
    """Return the answer where linear algebra makes nothing of an update: no token, no label, a start that diverged."""
    (trial,) = observation.trials
    start = StartRecord(trial, 0, inf, 0, 0, True, "diverged")
    return TextReconstruction((torch.empty(0, dtype=torch.int64),), torch.tensor([NO_LABEL]), (start,))


def read(attack: TextAttack, case: TextCase) -> TextReconstruction:
    """Return what an attack makes of one trial; one of which linear algebra makes nothing is lost, and no other.

    Raises:
        UserError: see ``TextAttack.reconstruct``.
    """
    if case.observation.silent:
        return unread(case.observation)
    try:
        return attack.reconstruct(case)
    except NO_ALGEBRA:
        return lost(case.observation)


def packed(part: TextReconstruction) -> dict[str, Tensor]:
    """Return the only trial of a reconstruction as tensors, its starts included."""
    (tokens,) = part.tokens
    kept = {"tokens": tokens.cpu(), "labels": part.labels.cpu(), "starts": as_tensor(part.starts)}
    if part.lengths:
        kept |= {"lengths": part.lengths[0].cpu(), "certified": part.certified[0].cpu()}
    return kept


def unpacked(tensors: Mapping[str, Tensor]) -> TextReconstruction:
    """Return the reconstruction of ``packed``."""
    several = [(tensors[name],) if name in tensors else () for name in ("lengths", "certified")]
    return TextReconstruction((tensors["tokens"],), tensors["labels"], from_tensor(tensors["starts"]), *several)


def written(part: TextReconstruction) -> dict[str, Any]:
    """Return the only trial of a reconstruction as its file has it: ids, the label, and sentences if it has several."""
    tokens: list[int] = part.tokens[0].tolist()
    row: dict[str, Any] = {"tokens": tokens, "label": int(part.labels[0])}
    if part.lengths:
        ends = part.lengths[0].cumsum(0).tolist()
        # one start more than sentences: the last is the end of all
        row["sentences"] = [tokens[first:end] for first, end in zip([0, *ends], ends, strict=False)]
        row["certified"] = part.certified[0].tolist()
    return row
