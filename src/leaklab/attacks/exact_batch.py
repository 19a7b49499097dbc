"""Exact batch: read all samples of an update off its first affine layer, with a proof and without a search.

Hidden rates, one per local step too, are factors of the derivatives and do not matter (``first_layer/layer.py``). The
matching loss that is recorded is the part of the batch that is not certified: 0 where the attacker knows that the
whole batch is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction
from leaklab.attacks.first_layer import completion, peel, quotient, spear, unmixing
from leaklab.attacks.first_layer.layer import FirstLayer, Reading, first_layers
from leaklab.attacks.first_layer.unmixing import pictures
from leaklab.attacks.reconstructions import NO_LABEL, read_off
from leaklab.attacks.starts import StartRecord
from leaklab.observations.base import Knowledge
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.records.bounds import Natural
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import AttackTraits

NAME = "exact-batch"
METHODS: dict[str, Callable[[FirstLayer, int, Stream], Reading]] = {
    "ratio": quotient.read,
    "spear": spear.read,
    "unmixing": unmixing.read,
    "black-pixels": quotient.read_black_pixels,
    "peel": peel.read,
}
PROVING = ("spear", "peel")
"""Methods whose readings say how far they agree with the layer's ReLU."""


@dataclass(frozen=True)
class ExactBatch:
    """Read a batch off the first layer, whatever factors the client hides.

    Attributes:
        method: ``ratio`` (one sample), ``spear`` (sampling), ``unmixing`` (FastICA alone), ``black-pixels`` (any
            activation) or ``peel`` (all of it, with certificates).
        samples: of the client's round, where each of its local steps has a batch of its own; 0 for one batch.
        pruned: zeros of the update are entries that the client dropped as the smallest (``gradient-compression``): the
            others are completed to the rank of the batch before it is read, see ``first_layer/completion``.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(update_seconds=0.01, batch_power=1.5)

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES,
        facts_when={"pruned": {True: ("defense",)}},
        facts_when_set={"samples": ("samples",)},
        facts_if_granted=("weight_decay",),
        searches=False,
        first_affine=True,
        tells_apart=True,
        single_when={"method": ("ratio",)},
        optimizers=("sgd", "adam"),
        dropout=True,
        several_batches=True,
    )

    method: Literal["ratio", "spear", "unmixing", "black-pixels", "peel"] = "peel"
    samples: Natural = 0
    pruned: bool = False

    def reconstruct(self, case: Case) -> Reconstruction:
        """Read every batch without spending the budget; the labels are not read.

        Raises:
            UserError: facts are withheld, the network does not begin with an affine layer, the client keeps that to
                itself, there are more samples than units, the update is zero, or ``pruned`` does not fit.
        """
        observation = case.observation
        batch, *shape = case.shape(NAME)
        count = self.samples or batch
        layers, method = first_layers(observation, case.knowledge, NAME), METHODS[self.method]
        if self.pruned:
            _refuse_other_products(case.knowledge)
            method = partial(completion.read, reader=method)
        readings = [
            method(layer, count, case.streams("start", trial, 0))
            for layer, trial in zip(layers, observation.trials, strict=True)
        ]
        like = next(iter(observation.update.values()))
        images = torch.from_numpy(np.stack([one.images for one in readings])).to(like).view(-1, count, *shape)
        losses = [_loss(one) for one in readings]
        return Reconstruction.of_starts(
            images[:, None],
            torch.tensor(losses, dtype=images.dtype, device=images.device)[:, None],
            torch.full((len(images), count), NO_LABEL, device=images.device),
            tuple(
                StartRecord(trial, 0, loss, 0, 0, loss == torch.inf, _stopped(loss))
                for trial, loss in zip(observation.trials, losses, strict=True)
            ),
            certified=self._certified(readings),
        )

    def _certified(self, readings: Sequence[Reading]) -> Tensor | None:
        """Return which batches were proven, [T]; nothing of a method that proves none."""
        proven = torch.tensor([one.proven for one in readings])
        return proven if self.method in PROVING else None


def _loss(reading: Reading) -> float:
    """Return the part of the batch that is not certified; inf where nothing at all was read."""
    if not np.isfinite(reading.images).any():
        return torch.inf
    return 0.0 if reading.proven else 1 - reading.certified / (len(reading.images) + 1)


def _stopped(loss: float) -> str:
    return "matched" if loss == 0 else "diverged" if loss == torch.inf else "budget"


def _refuse_other_products(knowledge: Knowledge) -> None:
    """Refuse updates whose dropped entries are not small ones of a product of derivatives and pixels.

    Raises:
        UserError: there is an L2 term, or inputs are normalized.
    """
    if knowledge.knows("weight_decay") and knowledge.require("weight_decay", NAME):
        why = "an L2 term: set weight_decay: 0"
    elif knowledge.knows("normalisation"):
        why = "normalized inputs: capture them on [0, 1]"
    else:
        return
    raise UserError(f"attack '{NAME}' with pruned: true cannot complete an update with {why}, or set pruned: false")


# Unmixed pictures: what a first affine layer shows of a round with more samples than it has units.

PICTURES = "unmixed-pictures"


@dataclass(frozen=True)
class UnmixedPictures:
    """Take pictures off the first layer, by quotients and by FastICA, whatever factors the client hides.

    Attributes:
        samples: of the client's round, where each of its local steps has a batch of its own; 0 for one batch.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES,
        facts_when_set={"samples": ("samples",)},
        facts_if_granted=("weight_decay",),
        searches=False,
        first_affine=True,
        optimizers=("sgd", "adam"),
        dropout=True,
        several_batches=True,
    )

    samples: Natural = 0

    def reconstruct(self, case: Case) -> Reconstruction:
        """Take the pictures of every update without spending the budget; the labels are not read.

        Raises:
            UserError: facts are withheld, the network does not begin with an affine layer, the client keeps that to
                itself, or the update is zero.
        """
        observation = case.observation
        batch, *shape = case.shape(PICTURES)
        count = self.samples or batch
        found = [
            np.resize(taken, (count, taken.shape[1]))
            for taken in (
                pictures(layer, case.streams("start", trial, 0))
                for layer, trial in zip(
                    first_layers(observation, case.knowledge, PICTURES), observation.trials, strict=True
                )
            )
        ]
        like = next(iter(observation.update.values()))
        images = torch.from_numpy(np.stack(found)).to(like).view(-1, count, *shape)
        return read_off(observation, images, torch.full((len(images), count), NO_LABEL, device=images.device))


PLUGINS = {
    "exact-batch": ExactBatch,
    "unmixed-pictures": UnmixedPictures,
}
