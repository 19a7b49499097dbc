"""Whole batches of sentences read exactly, in order, from one update of a transformer: no search, no factor needed.

See ``attacks/spans``: ranks by the largest gap, tokens by a closed-form test, sentences by prefixes or by assembly.
"""

from dataclasses import dataclass
from math import nan
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.reconstructions import NO_LABEL
from leaklab.attacks.spans.reading import Reading, ranked, read
from leaklab.attacks.spans.span import ROUNDING
from leaklab.attacks.starts import StartRecord
from leaklab.attacks.text.base import TextAttack, TextCase, TextReconstruction
from leaklab.attacks.text.observed import victim
from leaklab.models.text.first_block import first_block
from leaklab.observations.declared import SENTENCES, Requirements
from leaklab.records.bounds import Flag
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class SpanReadingAttack:
    """Read the sentences of every trial; what cannot be read exactly is ranked, which proves nothing.

    Attributes:
        ranks: whether to rank tokens where noise, pruning or several steps leave no rank; False refuses in one line.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SENTENCES, searches=False)

    ranks: Flag = True

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Read every trial; see ``base.TextAttack``. Several sentences of one update stand one behind the other.

        Raises:
            UserError: see above, and where the update lacks what is read.
        """
        # float64 and one sentence at a time, by lists of tokens: a processor's work, wherever the update lies
        observation, knowledge = case.observation.to("cpu"), case.knowledge
        end = knowledge.require("architecture", "span-reading")["vocabulary"]["end"]
        network, tokens, records = victim(observation, knowledge), [], []
        for row, update in enumerate(observation.as_direction().one_by_one()):
            gradients = {name: value[0] for name, value in update.update.items()}
            found = self._read(network, gradients, end)
            tokens.append(torch.tensor([token for sentence in found.sentences for token in sentence]).long())
            stopped = "diverged" if found.way == "ranking" or not found.sentences else "read"
            records.append(StartRecord(observation.trials[row], 0, nan, 0, 0, stopped == "diverged", stopped))
        labels = torch.full((len(tokens),), NO_LABEL, dtype=torch.int64)
        return TextReconstruction(tuple(tokens), labels, tuple(records))

    def _read(self, network: torch.nn.Module, gradients: dict[str, Tensor], end: int) -> Reading:
        try:
            found = read(network, gradients, end)
        except UserError:
            if not self.ranks:
                raise
            found = None
        if found is not None and (found.sentences or not self.ranks):
            return found
        return ranked(network, gradients, length_of(first_block(network).names.places, gradients))


def length_of(places: str, gradients: dict[str, Tensor]) -> int:
    """Return how many places have a gradient, by the largest gap between the lengths of the place table's rows.

    Raises:
        UserError: there is no such table in the update.
    """
    if places not in gradients:
        raise UserError("without the gradient of a place table nothing says how long a sentence is: it is not ranked")
    rows = gradients[places].double().norm(dim=1).sort(descending=True).values
    rows = rows.clamp(min=max(ROUNDING[gradients[places].dtype] * float(rows[0]), 1e-300))
    return int((rows[:-1] / rows[1:]).argmax()) + 1


PLUGIN: type[TextAttack] = SpanReadingAttack
