"""A Gaussian of the public images that are most like a first guess, in place of that of their class.

A class has many kinds of images. Once the class's Gaussian has led to a guess, the public images nearest to it say
more of what lies around it than all of the class do.

Source: local models of a data set, "Locally Weighted Learning" (Atkeson, Moore, Schaal); the attacker is ours.
"""

from dataclasses import replace

import torch
from torch import Tensor

from leaklab.attacks.posterior import Posterior
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator, principal
from leaklab.records.errors import UserError

FLOOR = 0.03
"""Least standard deviation along a component: fewer images know fewer directions."""
COMPONENTS = 300
"""The largest ones of the neighbours, fewer where these are fewer or their pixels."""


def near_posterior(posterior: Posterior, images: Tensor, labels: Tensor, neighbours: int) -> Posterior:
    """Return the posterior whose prior is, for every image, the Gaussian of the public images nearest to a guess.

    Args:
        posterior: of T trials.
        images: guesses, [T, B, C, H, W] on the [0, 1] scale.
        labels: [T, B]; neighbours are of the same class.
        neighbours: how many; at least two.

    Raises:
        UserError: the generator keeps no public images, or fewer.
    """
    public = getattr(posterior.scene.generator, "public", None)
    if public is None or public.shape[1] < neighbours:
        raise UserError(
            f"{posterior.scene.attack} looks for {neighbours} public images of a class, and the generator keeps "
            f"{0 if public is None else public.shape[1]}: choose class-gaussian with kept at least {neighbours}"
        )
    flat = images.flatten(0, 1).flatten(1)
    components = min(COMPONENTS, neighbours - 1, flat.shape[1])
    shape = posterior.scene.generator.image_shape
    local = ClassGaussianGenerator(components, len(flat), shape).to(flat)
    with torch.no_grad():
        for place, (image, label) in enumerate(zip(flat, labels.flatten().tolist(), strict=True)):
            mean, factor = principal(nearest(public[label].to(flat) / 255, image, neighbours), FLOOR)
            local.mean[place].copy_(mean)
            local.factor[place].copy_(factor[:, : local.latent_size])
    # each image is a class of its own for this generator
    classes = torch.eye(len(flat)).to(flat).view(*labels.shape, -1)
    return replace(posterior, scene=replace(posterior.scene, generator=local.frozen()), classes=classes)


def nearest(public: Tensor, image: Tensor, neighbours: int) -> Tensor:
    """Return the rows [neighbours, P] of ``public`` [N, P] with the smallest squared distance from ``image`` [P]."""
    return public[((public - image) ** 2).sum(1).topk(neighbours, largest=False).indices]
