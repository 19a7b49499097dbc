"""How near the pictures in an update come to the client's images, beside images of other clients.

A picture that resembles a private image is no leak while it resembles others of the class as much: digits of one
class are 17 to 23 dB from their mean. So the nearest image of the client (member) stands beside the nearest of as many
images of the same labels that are not in the update (strangers); only what lies between the two is of the client.

Both are the best of the same number of comparisons: of each label the client and the strangers have as many images,
the first ones of the larger side.

Source: research on exact attacks of this project; the comparison is that of membership inference.
"""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from leaklab.attacks.first_layer.layer import FirstLayer
from leaklab.attacks.first_layer.observed import first_layers
from leaklab.attacks.first_layer.unmixing import pictures
from leaklab.captures.truth import Truth
from leaklab.metrics.base import MetricCard
from leaklab.metrics.of_update import UpdateMetric
from leaklab.metrics.pixel import CAP_DB, PEAK
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.traits import MetricTraits
from leaklab.specs.attack import AttackSpec

ATTACK = "unmixed-pictures"
_KEPT: dict[tuple[bytes, int], Tensor] = {}
"""The pictures that this process has found: update and trial -> pictures; a few megabytes for each update."""


@dataclass(frozen=True)
class NearestMember(UpdateMetric):
    """PSNR of the picture that is nearest to any image of the client, one value for all images of an update.

    Attributes:
        margin: less the PSNR of the picture that is nearest to any stranger.
    """

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_update=True)

    margin: bool = False

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        less = ", less that of the best pair of a picture and an image of other clients, as many of each label"
        return MetricCard(
            name="member_margin" if self.margin else "nearest_member",
            unit="dB",
            better="lower",
            domain="[0, 1]",
            peak=PEAK,
            clamping="pictures clamped to [0, 1]",
            network="",
            input_range="[0, 1]",
            assignment=f"the best pair of a picture and an image of the client{less if self.margin else ''}",
            averaging="one value per update, at each of its images",
            note="a leak is what the nearest member is above the nearest stranger",
        )

    def refusal(self, spec: AttackSpec) -> str | None:
        """Return why an attack has no such number, or None if it has one."""
        if spec.attack.name != ATTACK:
            return f"it is that of the attack {ATTACK}"
        if len(getattr(spec.capture.images, "clients", ())) == 1:
            return "it compares with images of other clients of the capture: name several in images.clients"
        return None

    def values(
        self, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
    ) -> Tensor:
        """Return the number of each update at each of its images; see ``UpdateMetric``.

        Raises:
            UserError: no other client has images of a client's labels.
        """
        layers, found = first_layers(observation, knowledge, "nearest-member"), []
        for row, (layer, trial) in enumerate(zip(layers, observation.trials, strict=True)):
            members, strangers = sides(truth, row)
            if not len(members):
                raise UserError(f"metric '{self.card.name}': no other client has a label of client {row}: attack more")
            taken = _pictures(layer, trial)
            found.append(nearest(taken, members) - (nearest(taken, strangers) if self.margin else 0.0))
        return torch.tensor(found, dtype=torch.float64)[:, None].expand(truth.labels.shape).clone()


def _pictures(layer: FirstLayer, trial: int) -> Tensor:
    """Return the pictures in an update, [k, n] in [0, 1]; found once for this metric and its margin."""
    known = hashlib.sha256(np.concatenate([layer.weight_update.ravel(), layer.bias_update]).tobytes()).digest(), trial
    if known not in _KEPT:
        _KEPT[known] = torch.from_numpy(np.clip(pictures(layer, stream(0, "nearest", trial)), 0.0, 1.0))
    return _KEPT[known]


def sides(truth: Truth, row: int) -> tuple[Tensor, Tensor]:
    """Return images of client ``row`` and as many of the same labels of the others, both [k, n]; each image once."""
    mine: dict[int, tuple[int, Tensor]] = {}
    others: dict[int, tuple[int, Tensor]] = {}
    for trial, (images, labels, of_trial) in enumerate(zip(truth.images, truth.labels, truth.trials, strict=True)):
        side = mine if trial == row else others
        places = torch.tensor(of_trial["image"]).flatten().tolist()
        for place, image, label in zip(places, images.flatten(1).double(), labels.tolist(), strict=True):
            side.setdefault(place, (label, image))
    others = {place: held for place, held in others.items() if place not in mine}
    chosen: tuple[list[Tensor], list[Tensor]] = [], []
    for label in sorted({label for label, _ in mine.values()}):
        both = [[image for one, image in side.values() if one == label] for side in (mine, others)]
        count = min(map(len, both))
        for images, kept in zip(both, chosen, strict=True):
            kept.extend(images[:count])
    members, strangers = (torch.stack(kept) if kept else truth.images.new_zeros(0, 1) for kept in chosen)
    return members, strangers


def nearest(pictures: Tensor, images: Tensor) -> float:
    """Return the PSNR of the nearest pair of a picture [k, n] and an image [m, n], in dB, at most 80."""
    error = torch.cdist(pictures, images.to(pictures)).square().min() / pictures.shape[1]
    return float(10 * (PEAK**2 / error.clamp(min=PEAK**2 * 10 ** (-CAP_DB / 10))).log10())


# What the pictures in an update have of the client itself: how much nearer they come to it than to others.


@dataclass(frozen=True)
class MemberMargin(NearestMember):
    """PSNR of the nearest member less that of the nearest stranger, in dB; see ``NearestMember``."""

    margin: bool = True


PLUGINS = {
    "member-margin": MemberMargin,
    "nearest-member": NearestMember,
}
