"""Each class as a Gaussian around its mean image: a generator that is fitted to public images, not trained.

A latent says how far an image lies from the mean along each principal component, in standard deviations::

    x = m_y + V_y S_y z,        s_k^2 = lambda_k + floor^2

with the mean m_y, the components V_y and their variances lambda_k over the images of class y. So under the prior
N(0, 1) of latents images have the covariance of their class, and a floor's worth of freedom in every direction: fine
detail that no public image shows is unlikely, not impossible.

Source: probabilistic principal components, "Probabilistic Principal Component Analysis" (Tipping, Bishop); there the
floor fills the directions that are left out, here it is added to all.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from leaklab.models.base import Shape
from leaklab.models.generators.base import Generator
from leaklab.records import tensor_algebra
from leaklab.records.bounds import Count, Natural, NonNegative
from leaklab.records.errors import UserError

MOST_PIXELS = 4096
"""Covariances of larger images fill a machine's memory: K classes have K * pixels^2 numbers."""


class ClassGaussianGenerator(Generator):
    """The mean of a class plus its components times the latent; the images may leave [0, 1].

    Attributes:
        public: uint8 [K, kept, pixels], where images are kept.
    """

    public: Tensor

    def __init__(
        self, components: int, num_classes: int, image_shape: Shape, kept: int = 0, *, pooled: bool = False
    ) -> None:
        """Make a generator of black images that keeps as many public images of each class, black as well.

        Args:
            components: d.
            num_classes: K.
            image_shape: (channels, height, width).
            kept: public images of each class.
            pooled: all classes have the same components.

        Raises:
            UserError: there are more components than pixels, or none.
        """
        super().__init__(components, num_classes, image_shape)
        pixels = prod(image_shape)
        if components > pixels:
            raise UserError(f"images of {pixels} pixels have no {components} components: lower components")
        self.mean = nn.Parameter(torch.zeros(num_classes, pixels))
        self.factor = nn.Parameter(torch.zeros(1 if pooled else num_classes, pixels, components))
        if kept:
            self.register_buffer("public", torch.zeros(num_classes, kept, pixels, dtype=torch.uint8))

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """[N, d], [N, K] -> [N, C, H, W]; differentiable in the latents."""
        flat = classes @ self.mean
        for k in classes.any(0).nonzero()[:, 0].tolist():
            rows = classes[:, k].nonzero()[:, 0]
            flat = flat.index_add(0, rows, classes[rows, k, None] * (latents[rows] @ self.factor_of(k).T))
        return flat.view(-1, *self.image_shape)

    def factor_of(self, label: int) -> Tensor:
        """Return the components of a class times their deviations: [pixels, d]."""
        return self.factor[label % len(self.factor)]


@dataclass(frozen=True)
class ClassGaussian:
    """The settings that make the generator.

    Attributes:
        components: numbers in one latent, the components of the largest variance; None for one per pixel.
        floor: standard deviation, on the [0, 1] scale, that every component has at least.
        kept: public images of each class that stay at hand, the first ones, for attacks that look for the nearest.
        dealt_to: clients of an IID deal of the training part (seed 0) some of whom are attacked; 0 for no deal.
        attacked: so many of them, the first ones, whose images are not public.
        pooled: one covariance for all classes, that of images around the mean of their class: where a class has fewer
            public images than pixels, its own covariance knows nothing of most directions.
        per_class: public images of each class, the first ones; 0 for all.
    """

    components: Count | None = None
    floor: NonNegative = 0.02
    kept: Natural = 0
    dealt_to: Natural = 0
    attacked: Natural = 0
    pooled: bool = False
    per_class: Natural = 0

    def __post_init__(self) -> None:
        """Refuse a deal in which nobody is attacked, or nobody else has images, and a deal of a few images."""
        if self.per_class and (self.dealt_to or self.attacked):
            raise UserError("generator 'class-gaussian' takes per_class or a deal, not both: leave one of them out")
        if (self.dealt_to or self.attacked) and not 0 < self.attacked < self.dealt_to:
            raise UserError(
                f"generator 'class-gaussian': attacked: {self.attacked} of dealt_to: {self.dealt_to} clients leaves no "
                "public images or none private: set both, attacked from 1 to below dealt_to, or neither"
            )

    def generator(self, image_shape: Shape, num_classes: int) -> ClassGaussianGenerator:
        """Return the generator before it is fitted, float32 on the CPU.

        Raises:
            UserError: images are too large, or have fewer pixels than ``components``.
        """
        if prod(image_shape) > MOST_PIXELS:
            raise UserError(
                f"generator 'class-gaussian' takes images of at most {MOST_PIXELS} numbers, not {prod(image_shape)}: "
                "choose another dataset or generator"
            )
        components = self.components or prod(image_shape)
        return ClassGaussianGenerator(components, num_classes, image_shape, self.kept, pooled=self.pooled)

    def fitted(self, images: Tensor, labels: Tensor, num_classes: int) -> ClassGaussianGenerator:
        """Return the generator of these images, frozen, float32 on their device.

        Args:
            images: [N, C, H, W] floats in [0, 1].
            labels: [N] int64.
            num_classes: K.

        Raises:
            UserError: a class has fewer than two images, or fewer than ``kept``; see also ``generator``.
        """
        shape = (images.shape[1], images.shape[2], images.shape[3])
        generator = self.generator(shape, num_classes).to(images.device)
        with torch.no_grad():
            if self.pooled:
                generator.factor[0].copy_(within_classes(images, labels, self.floor)[:, : generator.latent_size])
            for k in range(num_classes):
                own = images[labels == k].flatten(1)
                if len(own) < max(2, self.kept):
                    raise UserError(
                        f"generator 'class-gaussian' needs {max(2, self.kept)} images of each class, and class {k} has "
                        f"{len(own)}: lower kept or choose another dataset"
                    )
                if self.pooled:
                    generator.mean[k].copy_(own.double().mean(0))
                else:
                    mean, factor = principal(own.double(), self.floor)
                    generator.mean[k].copy_(mean)
                    generator.factor[k].copy_(factor[:, : generator.latent_size])
                if self.kept:
                    generator.public[k].copy_((255 * own[: self.kept]).round())
        generator.frozen()
        return generator


def principal(images: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """Return the mean [P] of images [N, P] and all components [P, P], largest first, times their deviations.

    Args:
        images: at least two.
        floor: standard deviation that every component has at least.
    """
    mean = images.mean(0)
    centred = images - mean
    variances, components = tensor_algebra.eigh(centred.T @ centred / (len(images) - 1))
    deviations = (variances.clamp(min=0) + floor**2).sqrt()
    factor = (_with_one_sign(components) * deviations).flip(1)
    return mean, factor


def within_classes(images: Tensor, labels: Tensor, floor: float) -> Tensor:
    """Return the components [P, P] of images [N, ...] around the means of their classes; see ``principal``.

    Args:
        images: more than there are classes.
        labels: [N].
        floor: standard deviation that every component has at least.
    """
    flat, classes = images.flatten(1).double(), sorted(set(labels.tolist()))
    centred = torch.cat([own - own.mean(0) for own in (flat[labels == k] for k in classes)])
    lost = (len(centred) - 1) / max(1, len(centred) - len(classes))  # a mean of each class was taken, not one
    return principal(lost**0.5 * centred, floor)[1]


def _with_one_sign(components: Tensor) -> Tensor:
    """Return the columns, which have no sign of their own, with that by which the largest entry is positive."""
    largest = components.gather(0, components.abs().argmax(0, keepdim=True))
    return components * torch.where(largest < 0, -1.0, 1.0).to(components)


PLUGIN = ClassGaussian
