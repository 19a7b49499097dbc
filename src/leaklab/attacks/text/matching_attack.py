"""The whole attack on text: search embeddings whose gradients match, then read the nearest tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Streams
from leaklab.attacks.starts import StartRecord, numbered
from leaklab.attacks.text.descent import DescentSettings, best_of_starts
from leaklab.attacks.text.distances import TEXT_DISTANCES
from leaklab.attacks.text.inversion import SentenceFrame, TextInversion
from leaklab.attacks.text.read_out import nearest_tokens
from leaklab.attacks.text.tables import token_bag
from leaklab.models.text.base import WORD_TABLE
from leaklab.records.errors import UserError

PADDING = 0
"""Row of the word table that no sentence uses between start and end."""


@dataclass(frozen=True)
class TextReconstruction:
    """What was found for T trials.

    Attributes:
        tokens: T tensors int64 [L], with the known start and end.
        labels: int64 [T], known or the largest of the searched logits.
        starts: a record per start; ``trial`` is the trial's number in the capture.
    """

    tokens: tuple[Tensor, ...]
    labels: Tensor
    starts: tuple[StartRecord, ...]


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
