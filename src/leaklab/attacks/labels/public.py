"""Labels that an attack fixes before it searches, read with the help of public images: those of a generator.

``likeliest_labels`` asks which class's mean image explains the update best, by the matching distance that the search
minimises as well; so it reads labels wherever that distance sees through a defense.

The rules for batches measure on them what the network predicts, and start from their features (``counts``,
``unmixed_labels``).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.base import Streams
from leaklab.attacks.labels.head import head
from leaklab.attacks.labels.rules import BATCH_RULES, LABEL_RULES, batch_labels, check_count, fixed_labels
from leaklab.attacks.latents.scene import Scene
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.matching.gradients import trial_gradients
from leaklab.records.errors import UserError

LIKELIHOOD = "likelihood"
PUBLIC_IMAGES = 30
"""Images of each class by which the predictions are measured."""


def labels_of(scene: Scene, rule: str, streams: Streams, samples: int = 0) -> Tensor:
    """Return the labels [T, B], int64, on the device of the observation.

    Args:
        scene: see ``Scene``.
        rule: ``likelihood`` (``likeliest_labels``, for one sample per update), or one of ``labels.fixed_labels``; what
            that measures on noise is measured on the generator's images.
        streams: the attack's; ``streams("public", k)`` draws images of class k.
        samples: B, where each local step has a batch of its own; 0 for that of one batch.

    Raises:
        UserError: unknown rule, one that does not fit the batch or the distance, or labels that are withheld.
    """
    batch = int(scene.knowledge.require("batch_size", scene.attack))
    if rule not in (LIKELIHOOD, *BATCH_RULES):
        if rule not in LABEL_RULES:
            known = ", ".join((LIKELIHOOD, *LABEL_RULES))
            raise UserError(f"{scene.attack} has no label_rule '{rule}': choose from {known}")
        labels = fixed_labels(scene.attack, rule, scene.observation, scene.knowledge)
        check_count(scene.attack, labels, samples or batch)
        return labels
    if samples not in (0, batch):
        raise UserError(f"label_rule '{rule}' reads one batch, not {samples} samples: use label_rule: known")
    if rule in BATCH_RULES:
        images = public_images(scene, streams)
        return batch_labels(rule, scene.network, head(scene.observation), images, batch, scene.distance)
    if batch != 1:
        raise UserError("label_rule 'likelihood' reads one label: use label_rule: counts, unmixed or known")
    return likeliest_labels(scene.network, scene.means(), scene.observed, scene.distance)


def likeliest_labels(network: nn.Sequential, inputs: Tensor, observed: list[Tensor], distance: Distance) -> Tensor:
    """Return the class whose image is the nearest explanation of each trial's update, for one sample: [T, 1].

    Args:
        network: the victim with its weights set; no parameter asks for a gradient.
        inputs: an image of each class, [K, C, H, W], as the victim takes them.
        observed: observed gradients, one [T, ...] per parameter in the network's order.
        distance: see ``matching``; where it is not finite a class is out of the question.
    """
    values = torch.stack([_explained(network, inputs, label, observed, distance) for label in range(len(inputs))], 1)
    return values.nan_to_num(nan=torch.inf).argmin(1, keepdim=True)


def _explained(
    network: nn.Sequential, inputs: Tensor, label: int, observed: list[Tensor], distance: Distance
) -> Tensor:
    """Return the distance [T] of the updates from that of the class's image."""
    target = F.one_hot(torch.tensor([[label]], device=inputs.device), len(inputs)).to(inputs.dtype)
    image = inputs[None, label : label + 1].detach().requires_grad_()
    gradients = trial_gradients(network)(network, image, target)
    return distance([g.detach().expand_as(o) for g, o in zip(gradients, observed, strict=True)], observed)[0]


def public_images(scene: Scene, streams: Streams) -> Tensor:
    """Return images [N, C, H, W] that the generator draws, as the victim takes them; class by class in turn."""
    classes = range(scene.generator.num_classes)
    return torch.stack([_drawn(scene, label, streams) for label in classes], 1).flatten(0, 1)


def _drawn(scene: Scene, label: int, streams: Streams) -> Tensor:
    like, generator = scene.observed[0], scene.generator
    latents = streams("public", label).normal(PUBLIC_IMAGES, generator.latent_size).to(like)
    labels = torch.full((PUBLIC_IMAGES,), label, device=like.device)
    with torch.no_grad():
        images = generator.generate(latents, F.one_hot(labels, generator.num_classes).to(like)).clamp(0, 1)
    return scene.as_inputs(images)
