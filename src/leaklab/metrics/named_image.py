"""Whether an update says which image it is of, among public ones: by the features in its head.

No picture is drawn. It is asked whether, of the private image and all public images that the generator keeps, the
private one has the features that are nearest to those in the head's update. Chance is one over their number.
"""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.first_layer.layer import FirstLayer, first_layers
from leaklab.attacks.first_layer.unmixing import pictures
from leaklab.attacks.labels.head import apart, features_of, head_features, public_images
from leaklab.attacks.latents.scene import Scene, scene_of
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.matching.gradients import trial_gradients
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

PRIOR = "class-gaussian"


@dataclass(frozen=True)
class NamedImage(UpdateMetric):
    """1 where the private image is told from all public ones, else 0; its mean is the share of images.

    Attributes:
        name: of the metric, in ``metric`` columns.
        by: what is compared, in words.
    """

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_update=True)
    name: ClassVar[str] = "named_image"
    by: ClassVar[str] = "the features before the last layer, as the head's update tells them"

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name=self.name,
            unit="",
            better="lower",
            domain="[0, 1]",
            peak=None,
            clamping="none",
            network="the victim",
            input_range="[0, 1]",
            assignment="none: the private image stands among the public ones",
            averaging="mean over the images: the share of them",
            note=f"told by {self.by}; chance is one over the number of images",
        )

    def refusal(self, spec: AttackSpec) -> str | None:
        """Return why an attack has no such number, or None if it has one."""
        if (
            spec.generator is None
            or spec.generator.model.name != PRIOR
            or not spec.generator.model.settings.get("kept")
        ):
            return f"its public images are those that the generator {PRIOR} keeps"
        return "an update of several samples is of no single image" if spec.capture.batch_size > 1 else None

    def values(
        self, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
    ) -> Tensor:
        """Return whether each private image is named, [T, 1]; see ``UpdateMetric``."""
        assert generator is not None  # refusal() asks for it
        scene = scene_of(self.name, generator, observation.as_direction(), knowledge, squared_l2)
        public, labels = public_images(scene.generator, self.name)
        private = truth.images[:, 0].to(public)
        own, nearest = self.distances(scene, (private, truth.labels[:, 0]), (public, labels))
        return (own < nearest).double()[:, None].cpu()

    def distances(
        self, scene: Scene, private: tuple[Tensor, Tensor], public: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the distance of each update from its private image, and from the nearest public one, both [T].

        Args:
            scene: the victim and the T updates.
            private: images [T, C, H, W] on the [0, 1] scale and labels [T].
            public: the same of N images.
        """
        seen = head_features(scene.observation)
        own = features_of(scene.network, scene.as_inputs(private[0]))
        others = apart(seen, features_of(scene.network, scene.as_inputs(public[0])))
        return torch.linalg.vector_norm(seen - own, dim=1), others.amin(1)


# Whether an update says which image it is of, among public ones: by all of it.

TOGETHER = 50
"""Gradients that are computed at once: a memory knob only."""


@dataclass(frozen=True)
class NamedByGradient(NamedImage):
    """1 where the private image's gradient is the likeliest; see ``NamedImage``."""

    name: ClassVar[str] = "named_by_gradient"
    by: ClassVar[str] = "the cosine of the whole update and each candidate's gradient"

    def distances(
        self, scene: Scene, private: tuple[Tensor, Tensor], public: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return one minus the cosine, see ``NamedImage.distances``."""
        seen = F.normalize(torch.cat([value.flatten(1) for value in scene.observed], 1))
        own = torch.cat(list(_directions(scene, *private)))
        others = torch.cat([seen @ some.T for some in _directions(scene, *public)], 1)
        return 1 - (seen * own).sum(1), 1 - others.amax(1)


def _directions(scene: Scene, images: Tensor, labels: Tensor) -> list[Tensor]:
    """Return the gradients of images [N, C, H, W], of length 1, some [*, n] at a time."""
    gradients, classes = trial_gradients(scene.network), scene.generator.num_classes
    found = []
    for some, of in zip(torch.split(images, TOGETHER), torch.split(labels, TOGETHER), strict=True):
        targets = F.one_hot(of, classes)[:, None].to(some)
        inputs = scene.as_inputs(some)[:, None].detach().requires_grad_()
        parts = gradients(scene.network, inputs, targets)
        found.append(F.normalize(torch.cat([part.detach().flatten(1) for part in parts], 1)))
    return found


# How near the pictures in an update come to the client's images, beside images of other clients.

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
    "named-by-gradient": NamedByGradient,
    "named-image": NamedImage,
    "nearest-member": NearestMember,
}
