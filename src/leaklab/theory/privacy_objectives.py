"""HyperFL's attack objectives (7) to (10): with the hidden parts given they are ordinary inversion, and succeed.

One step on one smooth random image, float64. Each objective is searched by the same IG, so that what it costs to lack a
part is the difference between two rows. In (8) and (10) the derivative at the generated weights takes the place of the
classifier's, whose factor in the printed chain rule is zero.

Source: HyperFL equations 7 to 10 (C.7-C.10).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import log10
from statistics import stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from leaklab.attacks.adaptive.drawn_embedding import cosine_through, matched_through
from leaklab.attacks.adaptive.linear_heads import of_extractor
from leaklab.attacks.adaptive.two_level import TwoLevel
from leaklab.attacks.base import Budget
from leaklab.attacks.hyper_message import Heads
from leaklab.attacks.ig import InvertingGradients
from leaklab.attacks.matching import Distance
from leaklab.attacks.private_layers import completed
from leaklab.federated.algorithms.parts import classifier_names
from leaklab.models.cnn_leaky import LeakyCNN
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.bounds import Count
from leaklab.records.streams import Stream, stream
from leaklab.theory.base import Clients, Number, Track

NAME, RATE, GRID = "privacy-objectives", 0.02, 4
ORDINARY, MESSAGE, TWO_LEVELS, UNRELATED = "7", "8", "10", "unrelated"
GIVEN, LACKING, FITTED, NONE = "given", "drawn", "fitted", "none"


@dataclass(frozen=True)
class PrivacyObjectives:
    """Attacks on clients of one network, under each objective.

    Attributes:
        images: how many clients, of one image each.
        side: height and width of the gray images.
        classes: of the labels.
        embedding: length of an embedding.
        hidden: units of the hypernetwork.
        iterations: of IG, one start each.
        lower_iterations: of the search for embedding and generated weights in (10).
    """

    images: Count = 5
    side: Count = 28
    classes: Count = 10
    embedding: Count = 64
    hidden: Count = 128
    iterations: Count = 1500
    lower_iterations: Count = 1000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return numbers by ``objective`` (7, 8, 10) and ``classifier``; the deal is not looked at.

        ``psnr``: of the reconstruction, mean over the images, in dB. The classifier is given, drawn, or fitted to the
        gradient that was found. In (8) the embedding is given or drawn together with it; in (10) it is searched.
        Objective ``unrelated`` has the PSNR of another client's image, which is what a failure looks like.
        ``loss_at_truth``: of (8) with all parts given, at the private image, largest of all; 0 but for rounding, so
        that a failure is none of the objective.
        """
        found: dict[tuple[str, str], list[float]] = {}
        at_truth = []
        for number in track(range(self.images), self.images, NAME):
            case = _Case(self, seed, number)
            at_truth.append(case.loss_at_truth())
            others = ((UNRELATED, NONE), _image(self, seed, number + self.images))
            for key, image in (*case.reconstructions(), others):
                found.setdefault(key, []).append(_psnr(image, case.image))
        for (objective, classifier), values in found.items():
            row = {"objective": objective, "classifier": classifier}
            spread = stdev(values) if len(values) > 1 else None
            yield Number("psnr", sum(values) / len(values), row, std=spread, n=len(values))
        yield Number("loss_at_truth", max(at_truth), {"objective": MESSAGE, "classifier": GIVEN}, n=len(at_truth))


class _Case:
    """One client, what it sends, and what an attacker may be given."""

    def __init__(self, check: PrivacyObjectives, seed: int, number: int) -> None:
        self.check, self.seed, self.number = check, seed, number
        shape = (1, check.side, check.side)
        self.network = LeakyCNN().initialised(shape, check.classes, seed, torch.float64)
        first = {name: value.detach() for name, value in self.network.named_parameters()}
        private = classifier_names(first)
        self.classifier = {name: value for name, value in first.items() if name in private}
        extractor = {name: value for name, value in first.items() if name not in private}
        generator = Hypernetwork(check.embedding, check.hidden)
        weights = generator.first_weights(extractor, stream(seed, NAME, "hypernetwork"))
        self.sent = Heads.of(weights, list(first), NAME)
        self.embedding = generator.first_embedding(stream(seed, NAME, "embedding", number), next(iter(first.values())))
        self.image, self.label = _image(check, seed, number), number % check.classes
        self.made = self.sent.apart(self.sent.generated(self.sent.hidden(self.embedding)))
        self.slopes = self._slopes()
        self.gradient = self.sent.gradient(self.embedding, self._flat(self.slopes))

    def _slopes(self) -> dict[str, Tensor]:
        """Return the gradient of the client's loss at the network's weights."""
        leaves = {name: value.clone().requires_grad_() for name, value in {**self.made, **self.classifier}.items()}
        logits = functional_call(self.network, leaves, (self.image[None],))
        loss = F.cross_entropy(logits, torch.tensor([self.label]))
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    def _flat(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([tensors[name].flatten() for name in self.sent.shapes])

    def loss_at_truth(self) -> float:
        """Return the loss of (8) at the true gradient."""
        observation, distance = self._hypernetwork_given()
        own = [self.slopes[name][None] for name in observation.update]
        return float(distance(own, list(observation.update.values()))[0])

    def reconstructions(self) -> Iterator[tuple[tuple[str, str], Tensor]]:
        """Yield objective and what of the classifier is known, with the image that is found."""
        ordinary = self._observation(
            {**self.made, **self.classifier}, {name: value[None] for name, value in self.slopes.items()}
        )
        yield (ORDINARY, GIVEN), self._found(ordinary, None)
        yield (MESSAGE, GIVEN), self._found(*self._hypernetwork_given())
        message, knowledge = self._message(), self._knowledge()
        draws = stream(self.seed, NAME, "in place of an embedding", self.number)
        embedding = draws.normal(self.check.embedding).to(self.embedding)
        drawn = matched_through(message, knowledge, self.sent, self.gradient, embedding, self.seed, NAME)
        yield (MESSAGE, LACKING), self._found(*drawn)
        level = TwoLevel(iterations=self.check.lower_iterations, draw=self.seed)
        lower, distance = level.of_trial(message, knowledge)
        yield (TWO_LEVELS, LACKING), self._found(lower, distance)
        given = replace(lower, weights={**lower.weights, **self.classifier})
        yield (TWO_LEVELS, GIVEN), self._found(given, distance)
        shared = replace(lower, weights={name: lower.weights[name] for name in lower.update})
        yield (TWO_LEVELS, FITTED), self._found(completed(shared, knowledge, "fitted", self.seed, NAME), distance)

    def _hypernetwork_given(self) -> tuple[Observation, Distance]:
        """Return the observation of (8) with embedding and classifier known, and its loss."""
        unit = self.gradient.squared_norm().sqrt()
        direction = self.sent.through(self.embedding, self.gradient) / unit
        weights = self.sent.generated(self.sent.hidden(self.embedding))
        seen = of_extractor(self._message(), self.sent, weights, direction)
        whole = replace(seen, weights={**seen.weights, **self.classifier})
        return whole, cosine_through(self.sent, self.embedding)

    def _message(self) -> Observation:
        return self._observation(
            self.sent.tensors(), {name: value[None] for name, value in self.gradient.tensors().items()}
        )

    def _observation(self, weights: Mapping[str, Tensor], update: Mapping[str, Tensor]) -> Observation:
        model = {"name": "cnn-leaky", "settings": {}}
        return Observation(weights, update, "gradient", "eval", model, (self.number,))

    def _knowledge(self) -> Knowledge:
        facts: dict[str, Any] = {
            "input_shape": list(self.image.shape), "num_classes": self.check.classes, "batch_size": 1,
            "nominal_rate": RATE, "local_steps": 1, "input_range": [0.0, 1.0], "weight_decay": 0.0,
            "labels": [[self.label]] * (self.number + 1),
        }  # fmt: skip
        return Knowledge(NAME, facts)

    def _found(self, observation: Observation, distance: Distance | None) -> Tensor:
        def streams(use: str, *place: str | int) -> Stream:
            return stream(self.seed, NAME, use, *place)

        result = InvertingGradients().reconstruct(
            observation, self._knowledge(), Budget(self.check.iterations, 1), streams, distance
        )
        return result.images[0, 0].detach().to(self.image)


def _image(check: PrivacyObjectives, seed: int, number: int) -> Tensor:
    """Return a smooth gray image in [0, 1], [1, side, side]."""
    grid = stream(seed, NAME, "image", number).uniform(1, 1, GRID, GRID)
    return F.interpolate(grid, size=(check.side, check.side), mode="bilinear", align_corners=True)[0]


def _psnr(found: Tensor, wanted: Tensor) -> float:
    """Return -10 log10 of the mean squared error of images in [0, 1]."""
    return -10 * log10(max(float((found - wanted).square().mean()), 1e-30))


PLUGIN = PrivacyObjectives
