"""One client of HyperFL with one image, and the attacker who inverts what can be read off its message.

The network is that of HyperFL's training in float64, the image smooth and random, so that nothing but what the attacker
is given decides whether he succeeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log10
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.ig import InvertingGradients
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.private_parts.hypernetwork import Heads
from leaklab.federated.algorithms.base import classifier_names
from leaklab.models.cnns import LeakyCNN
from leaklab.models.hypernetwork import Hypernetwork, Start
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.streams import Stream, stream

RATE, GRID = 0.02, 4


@dataclass(frozen=True)
class Setting:
    """What the clients of one check share.

    Attributes:
        name: of the check; its draws come from streams of this name.
        seed: of all draws.
        side: height and width of the gray images.
        classes: of the labels.
        embedding: length of an embedding.
        hidden: units of the hypernetwork.
        start: how the heads begin, see ``models/hypernetwork.py``.
    """

    name: str
    seed: int
    side: int
    classes: int
    embedding: int
    hidden: int
    start: Start = "biases"

    @property
    def generator(self) -> Hypernetwork:
        """The hypernetwork, without weights."""
        return Hypernetwork(self.embedding, self.hidden, self.start)


class HyperClient:
    """One client: ``image``, ``label``, ``embedding`` and ``classifier`` are its own; ``gradient`` is what it sends.

    ``sent`` is the hypernetwork that it received, ``made`` the extractor that it generates and ``slopes`` the gradient
    of its loss at the whole network's weights.
    """

    def __init__(self, setting: Setting, number: int) -> None:
        """Draw client ``number``; the network's and the hypernetwork's first weights are those of all clients."""
        self.setting, self.number = setting, number
        self.network, self.classifier, self.sent = _of_all(setting)
        draws = stream(setting.seed, setting.name, "embedding", number)
        self.embedding = setting.generator.first_embedding(draws, self.sent.w)
        self.image, self.label = image_of(setting, number), number % setting.classes
        self.made = self.sent.apart(self.sent.generated(self.sent.hidden(self.embedding)))
        self.slopes = self._slopes()
        self.gradient = self.sent.gradient(self.embedding, self.flat(self.slopes))

    def flat(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the extractor's tensors side by side, [P]."""
        return torch.cat([tensors[name].flatten() for name in self.sent.shapes])

    def message(self) -> Observation:
        """Return what the server sees of this client."""
        return self.observation(
            self.sent.tensors(), {name: value[None] for name, value in self.gradient.tensors().items()}
        )

    def observation(self, weights: Mapping[str, Tensor], update: Mapping[str, Tensor]) -> Observation:
        """Return an observation of this client: ``update`` has a leading axis of one sample."""
        model = {"name": "cnn-leaky", "settings": {}}
        return Observation(weights, update, "gradient", "eval", model, (self.number,))

    def knowledge(self) -> Knowledge:
        """Return what the attacker knows, the label among it."""
        facts: dict[str, Any] = {
            "input_shape": list(self.image.shape), "num_classes": self.setting.classes, "batch_size": 1,
            "nominal_rate": RATE, "local_steps": 1, "input_range": [0.0, 1.0], "weight_decay": 0.0,
            "labels": [[self.label]] * (self.number + 1),
        }  # fmt: skip
        return Knowledge(self.setting.name, facts)

    def searched(self, observation: Observation, distance: Distance | None, iterations: int) -> tuple[Tensor, float]:
        """Return the image that IG finds from one start, and its matching loss."""

        def streams(use: str, *place: str | int) -> Stream:
            return stream(self.setting.seed, self.setting.name, use, *place)

        case = Case(observation, self.knowledge(), Budget(iterations, 1), streams, distance)
        result = InvertingGradients().reconstruct(case)
        return result.images[0, 0].detach().to(self.image), float(result.candidate_losses[0, 0])

    def inverted(self, observation: Observation, distance: Distance | None, iterations: int) -> Tensor:
        """Return the image that IG finds from one start."""
        return self.searched(observation, distance, iterations)[0]

    def _slopes(self) -> dict[str, Tensor]:
        leaves = {name: value.clone().requires_grad_() for name, value in {**self.made, **self.classifier}.items()}
        logits = functional_call(self.network, leaves, (self.image[None],))
        loss = F.cross_entropy(logits, torch.tensor([self.label]))
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


@lru_cache(maxsize=4)
def _of_all(setting: Setting) -> tuple[nn.Sequential, dict[str, Tensor], Heads]:
    """Return what all clients of a setting begin with: network, classifier and hypernetwork (some 100 MB)."""
    shape = (1, setting.side, setting.side)
    network = LeakyCNN().initialised(shape, setting.classes, setting.seed, torch.float64)
    first = {name: value.detach() for name, value in network.named_parameters()}
    private = classifier_names(first)
    extractor = {name: value for name, value in first.items() if name not in private}
    weights = setting.generator.first_weights(extractor, stream(setting.seed, setting.name, "hypernetwork"))
    classifier = {name: value for name, value in first.items() if name in private}
    return network, classifier, Heads.of(weights, list(first), setting.name)


def image_of(setting: Setting, number: int) -> Tensor:
    """Return a smooth gray image in [0, 1], [1, side, side]."""
    grid = stream(setting.seed, setting.name, "image", number).uniform(1, 1, GRID, GRID)
    return F.interpolate(grid, size=(setting.side, setting.side), mode="bilinear", align_corners=True)[0]


def psnr(found: Tensor, wanted: Tensor) -> float:
    """Return -10 log10 of the mean squared error of images in [0, 1], in dB."""
    return -10 * log10(max(float((found - wanted).square().mean()), 1e-30))
