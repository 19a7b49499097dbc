"""HyperFL's attack objectives (7) to (10): with the hidden parts given they are ordinary inversion, and succeed.

One step on one smooth random image, float64. Each objective is searched by the same IG, so that what it costs to lack a
part is the difference between two rows. In (8) and (10) the derivative at the generated weights takes the place of the
classifier's, whose factor in the printed chain rule is zero.

Source: HyperFL equations 7 to 10 (C.7-C.10).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import stdev
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.adaptive.hyperfl import TwoLevel, cosine_through, matched_through
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.private_parts.heads import completed
from leaklab.attacks.private_parts.hypernetwork import of_extractor
from leaklab.observations.base import Observation
from leaklab.records.bounds import Count
from leaklab.records.streams import stream
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.hyper_client import HyperClient, Setting, image_of, psnr

NAME = "privacy-objectives"
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

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=775.0)

    images: Count = 5
    side: Count = 28
    classes: Count = 10
    embedding: Count = 64
    hidden: Count = 128
    iterations: Count = 1500
    lower_iterations: Count = 1000

    def setting(self, seed: int) -> Setting:
        """Return what the clients share."""
        return Setting(NAME, seed, self.side, self.classes, self.embedding, self.hidden)

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
            others = ((UNRELATED, NONE), image_of(self.setting(seed), number + self.images))
            for key, image in (*case.reconstructions(), others):
                found.setdefault(key, []).append(psnr(image, case.image))
        for (objective, classifier), values in found.items():
            row = {"objective": objective, "classifier": classifier}
            spread = stdev(values) if len(values) > 1 else None
            yield Number("psnr", sum(values) / len(values), row, std=spread, n=len(values))
        yield Number("loss_at_truth", max(at_truth), {"objective": MESSAGE, "classifier": GIVEN}, n=len(at_truth))


class _Case(HyperClient):
    """One client, and what an attacker may be given of it."""

    def __init__(self, check: PrivacyObjectives, seed: int, number: int) -> None:
        super().__init__(check.setting(seed), number)
        self.check = check

    def loss_at_truth(self) -> float:
        """Return the loss of (8) at the true gradient."""
        observation, distance = self._hypernetwork_given()
        own = [self.slopes[name][None] for name in observation.update]
        return float(distance(own, list(observation.update.values()))[0])

    def reconstructions(self) -> Iterator[tuple[tuple[str, str], Tensor]]:
        """Yield objective and what of the classifier is known, with the image that is found."""
        ordinary = self.observation(
            {**self.made, **self.classifier}, {name: value[None] for name, value in self.slopes.items()}
        )
        yield (ORDINARY, GIVEN), self._found(ordinary, None)
        yield (MESSAGE, GIVEN), self._found(*self._hypernetwork_given())
        message, knowledge = self.message(), self.knowledge()
        draws = stream(self.setting.seed, NAME, "in place of an embedding", self.number)
        embedding = draws.normal(self.check.embedding).to(self.embedding)
        drawn = matched_through(message, knowledge, self.sent, self.gradient, embedding, self.setting.seed, NAME)
        yield (MESSAGE, LACKING), self._found(*drawn)
        level = TwoLevel(iterations=self.check.lower_iterations, draw=self.setting.seed)
        lower, distance = level.of_trial(message, knowledge)
        yield (TWO_LEVELS, LACKING), self._found(lower, distance)
        given = replace(lower, weights={**lower.weights, **self.classifier})
        yield (TWO_LEVELS, GIVEN), self._found(given, distance)
        shared = replace(lower, weights={name: lower.weights[name] for name in lower.update})
        yield (
            (TWO_LEVELS, FITTED),
            self._found(completed(shared, knowledge, "fitted", self.setting.seed, NAME), distance),
        )

    def _hypernetwork_given(self) -> tuple[Observation, Distance]:
        """Return the observation of (8) with embedding and classifier known, and its loss."""
        unit = self.gradient.squared_norm().sqrt()
        direction = self.sent.through(self.embedding, self.gradient) / unit
        weights = self.sent.generated(self.sent.hidden(self.embedding))
        seen = of_extractor(self.message(), self.sent, weights, direction)
        whole = replace(seen, weights={**seen.weights, **self.classifier})
        return whole, cosine_through(self.sent, self.embedding)

    def _found(self, observation: Observation, distance: Distance | None) -> Tensor:
        return self.inverted(observation, distance, self.check.iterations)


PLUGIN = PrivacyObjectives
