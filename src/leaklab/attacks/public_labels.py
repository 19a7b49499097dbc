"""Labels that an attack fixes before it searches, read with the help of public images: those of a generator.

``likeliest_labels`` asks which class's mean image explains the update best, by the matching distance that the search
minimises as well; so it reads labels wherever that distance sees through a defense.

``counted_labels`` reads how often each class occurs in a batch, equal labels included. For cross-entropy the bias
gradient of the head is the mean prediction less the share of the class, and predictions hardly depend on the images in
an untrained network: that of public images stands for it. It needs the scale of the gradient.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.adaptive.clip_emulation import after_clipping
from leaklab.attacks.base import Streams
from leaklab.attacks.gradients import trial_gradients
from leaklab.attacks.labels import LABEL_RULES, fixed_labels, head
from leaklab.attacks.matching import Distance, profiled_scale
from leaklab.attacks.scene import Scene
from leaklab.records.errors import UserError

PUBLIC_RULES = ("likelihood", "counts")
BLIND_TO_SCALE = (profiled_scale, after_clipping)
"""Distances for updates whose scale is not that of the gradient."""
PUBLIC_IMAGES = 30
"""Images of each class by which the mean prediction is measured."""


def labels_of(scene: Scene, rule: str, streams: Streams) -> Tensor:
    """Return the labels [T, B], int64, on the device of the observation.

    Args:
        scene: see ``Scene``.
        rule: ``likelihood`` (``likeliest_labels``, for one sample per update), ``counts`` (``counted_labels``), or one
            of ``labels.fixed_labels``.
        streams: the attack's; ``streams("public", k)`` draws images of class k.

    Raises:
        UserError: unknown rule, one that does not fit the batch or the distance, or labels that are withheld.
    """
    if rule not in PUBLIC_RULES:
        if rule not in LABEL_RULES:
            known = ", ".join((*PUBLIC_RULES, *LABEL_RULES))
            raise UserError(f"{scene.attack} has no label_rule '{rule}': choose from {known}")
        return fixed_labels(scene.attack, rule, scene.observation, scene.knowledge)
    batch = int(scene.knowledge.require("batch_size", scene.attack))
    if rule == "counts":
        if scene.distance in BLIND_TO_SCALE:
            raise UserError("label_rule 'counts' needs the scale of the gradient: use label_rule: distinct or known")
        return counted_labels(head(scene.observation).bias_update, mean_prediction(scene, streams), batch)
    if batch != 1:
        raise UserError("label_rule 'likelihood' reads one label: use label_rule: counts, distinct or known")
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


def counted_labels(bias_update: Tensor, prediction: Tensor, batch: int) -> Tensor:
    """Return labels [T, B], ascending, whose shares are nearest to prediction less bias gradient.

    Args:
        bias_update: gradient of the head's bias, [T, K], at its true scale.
        prediction: mean class probabilities [K] of public images.
        batch: B; the shares times B are rounded so that they sum to it, the largest remainder first.
    """
    missing = batch * (prediction - bias_update)
    rows, labels = torch.arange(len(missing), device=missing.device), []
    for _ in range(batch):
        labels.append(missing.argmax(1))
        missing[rows, labels[-1]] -= 1
    return torch.stack(labels, 1).sort(1).values


def mean_prediction(scene: Scene, streams: Streams) -> Tensor:
    """Return the mean class probabilities [K] of images that the generator draws, as many of each class."""
    return torch.stack([_predicted(scene, label, streams) for label in range(scene.generator.num_classes)]).mean(0)


def _predicted(scene: Scene, label: int, streams: Streams) -> Tensor:
    like, generator = scene.observed[0], scene.generator
    latents = streams("public", label).normal(PUBLIC_IMAGES, generator.latent_size).to(like)
    labels = torch.full((PUBLIC_IMAGES,), label, device=like.device)
    with torch.no_grad():
        images = generator.generate(latents, F.one_hot(labels, generator.num_classes).to(like)).clamp(0, 1)
        return torch.softmax(scene.network(scene.as_inputs(images)), 1).mean(0)
