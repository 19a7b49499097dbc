"""Whole batches of sentences read exactly, in order, from one update of a transformer: no search, no factor needed.

See ``attacks/spans``: ranks by the largest gap, tokens by a closed-form test, sentences by prefixes or by assembly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import nan
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.reconstructions import NO_LABEL
from leaklab.attacks.spans.moved import midway
from leaklab.attacks.spans.reading import Reading, read, read_or_rank
from leaklab.attacks.spans.span import ROUNDING, NotToldError
from leaklab.attacks.starts import StartRecord
from leaklab.attacks.text.base import TextAttack, TextCase, TextReconstruction
from leaklab.attacks.text.observed import victim
from leaklab.models.text.first_block import first_block
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import SENTENCES, Requirements
from leaklab.records.bounds import Flag


@dataclass(frozen=True)
class SpanReadingAttack:
    """Read the sentences of every trial; what cannot be read exactly is what comes nearest, which proves nothing.

    Tokens whose sentences are not found are given as a bag. What a ranking cannot tell either is answered by nothing.

    Attributes:
        ranks: whether to take what comes nearest, or the likeliest tokens, where noise, pruning or several steps leave
            no rank; False refuses in one line.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=SENTENCES,
        facts_if_granted=("nominal_rate", "local_steps"),
        searches=False,
        optimizers=("sgd", "adam"),
        frozen_embeddings=True,
        decoders=True,
    )

    ranks: Flag = True

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Read every trial; see ``base.TextAttack``.

        Raises:
            UserError: see above, and where the update lacks what is read.
        """
        # float64 and one sentence at a time, by lists of tokens: a processor's work, wherever the update lies
        observation, knowledge = case.observation.to("cpu"), case.knowledge
        end = knowledge.require("architecture", "span-reading")["vocabulary"]["end"]
        batch = int(knowledge.facts.get("batch_size", 1))
        change, steps = _change(observation, knowledge), int(knowledge.facts.get("local_steps", 1))
        network, tokens, records = victim(observation, knowledge), list[Tensor](), list[StartRecord]()
        lengths, certified = list[Tensor](), list[Tensor]()
        for row, update in enumerate(observation.as_direction().one_by_one()):
            gradients = {name: value[0] for name, value in update.update.items()}
            found = self._read(midway(network, gradients, change, steps), gradients, end, batch, change)
            sentences = ended(network, found.sentences, end) if found.way != "ranking" else found.sentences
            bag = [] if sentences else sorted(found.tokens)
            tokens.append(torch.tensor([*chain.from_iterable(sentences), *bag]).long())
            lengths.append(torch.tensor([len(sentence) for sentence in sentences]).long())
            certified.append(torch.tensor([found.proven] * len(sentences)).bool())
            stopped = "diverged" if found.way == "ranking" or not sentences else "read"
            records.append(StartRecord(observation.trials[row], 0, nan, 0, 0, stopped == "diverged", stopped))
        labels = torch.full((len(tokens),), NO_LABEL, dtype=torch.int64)
        return TextReconstruction(tuple(tokens), labels, tuple(records), tuple(lengths), tuple(certified))

    def _read(
        self, network: torch.nn.Module, gradients: dict[str, Tensor], end: int, batch: int, change: float
    ) -> Reading:
        if not self.ranks:
            return read(network, gradients, end, change)
        places = first_block(network).names.places
        return read_or_rank(network, gradients, lambda: length_of(places, gradients), batch, end, change)


def _change(observation: Observation, knowledge: Knowledge) -> float:
    """Return by what the update as a direction has to be multiplied to be minus the change of the weights."""
    if observation.kind == "delta":
        return 1.0
    return knowledge.assumed_rate() if knowledge.knows("nominal_rate") and knowledge.knows("local_steps") else 0.0


def ended(network: torch.nn.Module, sentences: Sequence[tuple[int, ...]], end: int) -> list[tuple[int, ...]]:
    """Return sentences with the token that ends all of them, where the next token is learnt and so the last one hidden.

    Args:
        network: whose loss is that of the classes, or of the next token.
        sentences: as they were read.
        end: the token.
    """
    hides = hasattr(network, "lm_head")
    return [(*one, end) if hides and one[-1] != end else one for one in sentences]


def length_of(places: str, gradients: dict[str, Tensor]) -> int:
    """Return how many places have a gradient, by the largest gap between the lengths of the place table's rows.

    Raises:
        NotToldError: there is no such table in the update.
    """
    if places not in gradients:
        raise NotToldError(
            "without the gradient of a place table nothing says how long a sentence is: it is not ranked"
        )
    rows = gradients[places].double().norm(dim=1).sort(descending=True).values
    rows = rows.clamp(min=max(ROUNDING[gradients[places].dtype] * float(rows[0]), 1e-300))
    return int((rows[:-1] / rows[1:]).argmax()) + 1


PLUGIN: type[TextAttack] = SpanReadingAttack
