"""Whether an update says which image it is of, among public ones: by the features in its head.

No picture is drawn. It is asked whether, of the private image and all public images that the generator keeps, the
private one has the features that are nearest to those in the head's update. Chance is one over their number.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.labels.head import apart, features_of, head_features, public_images
from leaklab.attacks.latents.scene import Scene, scene_of
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.matching.gradients import trial_gradients
from leaklab.captures.truth import Truth
from leaklab.metrics.base import MetricCard
from leaklab.metrics.of_update import UpdateMetric
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
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


PLUGINS = {
    "named-by-gradient": NamedByGradient,
    "named-image": NamedImage,
}
