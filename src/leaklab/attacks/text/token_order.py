"""The sentence read off the tables' gradients by linear equations, without any search (see ``tables``)."""

from dataclasses import dataclass
from math import nan
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.labels.rules import bias_rule
from leaklab.attacks.starts import StartRecord
from leaklab.attacks.text.base import TextAttack, TextCase, TextReconstruction
from leaklab.attacks.text.inversion import SentenceFrame
from leaklab.attacks.text.observed import frames
from leaklab.attacks.text.read_out import token_order
from leaklab.models.text.base import POSITION_TABLE, WORD_TABLE
from leaklab.observations.declared import SENTENCES, Requirements
from leaklab.observations.requirements import check_most
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class TokenOrderAttack:
    """Read the ordered sentence; what cannot be put in order is given as a bag, the strongest tokens first.

    Made for one local step on one sentence without noise or pruning. Any factor on the update is welcome.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SENTENCES, largest_batch=1, most_steps=1, searches=False)

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Read every sentence; see ``base.TextAttack``. A trial without an order is recorded as diverged."""
        observation, knowledge = case.observation, case.knowledge
        # who does not know takes the update for that of one step
        steps = knowledge.facts.get("local_steps", 1)
        check_most("attack 'token-order'", "local_steps", steps, self.requirements.most_steps)
        gradients = observation.as_direction().update
        tokens, records = [], []
        for row, frame in enumerate(frames(observation, knowledge)):
            word, position = gradients[WORD_TABLE][row], gradients[POSITION_TABLE][row]
            found, ordered = read(word, position, frame)
            tokens.append(found)
            stopped = "read" if ordered else "diverged"
            # no loss is evaluated
            records.append(StartRecord(observation.trials[row], 0, nan, 0, 0, not ordered, stopped))
        return TextReconstruction(tuple(tokens), bias_rule(observation)[:, 0], tuple(records))


def read(word_gradient: Tensor, position_gradient: Tensor, frame: SentenceFrame) -> tuple[Tensor, bool]:
    """Return the tokens of one sentence [L], and whether they are in order."""
    try:
        return token_order(word_gradient, position_gradient), True
    except UserError:
        strength = word_gradient.norm(dim=1)
        strength[[0, frame.start, frame.end]] = 0
        # never more tokens than the sentence has places: a longer output can only look better
        most = min(max(frame.unknown, 0), int((strength > 0).sum()))
        ends = torch.tensor([frame.start]), torch.tensor([frame.end])
        return torch.cat([ends[0], strength.topk(most).indices.cpu(), ends[1]]), False


PLUGIN: type[TextAttack] = TokenOrderAttack
