"""Attackers who know more of a guest than what it makes of a gradient.

They know what it trains on, which network that is, or where its update cannot point.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.base import Case, Reconstruction
from leaklab.attacks.labels.head import layer_input
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.latents.posterior import latent_starts, likeliest, narrowed, posterior_of
from leaklab.attacks.latents.scene import scene_of_case
from leaklab.attacks.latents.unrolled import Ladder
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened
from leaklab.attacks.matching.inversion import Inversion
from leaklab.guests.calls import samples_of
from leaklab.guests.exposure import FIRST_CLIENT, Attacker, Exposure
from leaklab.guests.maps import Fact
from leaklab.guests.moments import Labelled
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.records.errors import UserError

TINY = 1e-300
LADDER, BOX, HISTORY = Ladder(0.3, 1e-5, 6), 100.0, 40
"""Of the search for features; as in ``AnnealedMap``."""
RIDGE = 1e-2
"""Of the regression of originals on changed images, in squares of a pixel."""
Change = Callable[[Tensor, Tensor], Tensor]
"""An image [1, C, H, W] and its label [1] -> the image that is trained on in its place."""

# An update that is orthogonal to the gradient and as long as it, tensor by tensor.


@dataclass(frozen=True)
class Across(OnlyWidened):
    """The likelihood of a gradient of which each tensor is orthogonal to what is sent, and as long, up to an error."""

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""

        def value(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
            total = observed[0].new_zeros(len(observed[0]))
            for g, o in zip(gradients, observed, strict=True):
                g, o = g.flatten(1), o.flatten(1)
                own, other = (one.norm(dim=1).clamp(min=TINY**0.5) for one in (g, o))
                cosine, length = (g * o).sum(1) / (own * other), (own / other).log()
                # of a gradient that is not the true one the cosine is about one over the root of the entries
                total = total + (g.shape[1] * cosine**2 + length**2) / (2 * error**2)
            return total

        return Differentiated(value)


ACROSS = AnnealedLikelihood(coarsest=1.0, finest=0.001, stages=6)


# A guest that changes the samples: they are read, and turned back.


@dataclass(frozen=True)
class TurnedBack:
    """Read the samples that were trained on, and turn them back by a map that is learnt from public images.

    Of each draw of the guest's that is known, pairs of changed and original images make a linear map, the regression
    of the latter on the former. Which draw it was is told by changing the answer again.

    Attributes:
        changes: one of each draw.
        public: images that anyone has.
    """

    changes: Sequence[Change]
    public: Labelled

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"), largest_batch=1, generator=True
    )

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``."""
        images, labels = self.public.images, self.public.labels
        changed = [self._changed(change, images, labels) for change in self.changes]
        classes = int(case.knowledge.require("num_classes"))
        prior = ClassGaussian().fitted(torch.cat(changed), labels.repeat(len(changed)), classes).double()
        found = AnnealedMap().reconstruct(replace(case, generator=prior))
        answers = torch.stack([self._regressed(one, found.images[:, 0]) for one in changed])
        again = torch.stack(
            [self._changed(change, one, found.labels[:, 0]) for change, one in zip(self.changes, answers, strict=True)]
        )
        misses = (again - found.images[:, 0]).flatten(2).pow(2).sum(2)
        best = answers[misses.argmin(0), torch.arange(answers.shape[1])]
        return replace(found, images=best[:, None])

    def _changed(self, change: Change, images: Tensor, labels: Tensor) -> Tensor:
        return torch.cat([change(images[k : k + 1], labels[k : k + 1]) for k in range(len(labels))])

    def _regressed(self, changed: Tensor, read: Tensor) -> Tensor:
        """Return the originals [T, C, H, W] of images [T, C, H, W] that were read, in [0, 1]."""
        before, after = changed.flatten(1), self.public.images.flatten(1)
        means = before.mean(0), after.mean(0)
        x, y = before - means[0], after - means[1]
        gram = x.T @ x + RIDGE * torch.eye(x.shape[1]).to(x)
        answer = (read.flatten(1) - means[0]) @ torch.linalg.solve(gram, x.T @ y) + means[1]
        found: Tensor = answer.clamp(0, 1).view_as(read)
        return found


# A guest that changes the network: what goes into an affine layer is read off its gradients, whatever comes behind it.


class FeatureDistance(Inversion):
    """Squared distance of an image's features from those that were read, relative to the latter; see ``Inversion``.

    Attributes:
        front: the layers before the features, in evaluation state.
        features: [T, F].
    """

    front: nn.Sequential
    features: Tensor

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distance [S] at images [S, n] and its derivative [S, n]."""
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            found = self.front(points.view(len(points), *self.shape[1:])).flatten(1)
            wanted = self.features[rows]
            value = ((found - wanted) ** 2).sum(1) / (wanted**2).sum(1)
            (slope,) = torch.autograd.grad(value.sum(), points)
        return value.detach(), slope


@dataclass(frozen=True)
class FeaturesFirst:
    """Read the features before the first affine layer off its gradients, and search the image that has them.

    The quotient holds for one sample, whatever is drawn or added to the loss behind that layer; the layers before it
    are taken in evaluation state.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"), largest_batch=1, generator=True
    )

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``.

        Raises:
            UserError: no affine layer with a bias stands behind layers without a draw.
        """
        scene = scene_of_case("features-first", case)
        front, features = _features(scene.network, case)
        labels = fixed_labels("features-first", "bias", case.observation, case.knowledge)
        plain = posterior_of(scene, labels, BOX)
        shape, classes = (1, *scene.generator.image_shape), int(case.knowledge.require("num_classes"))
        distance = FeatureDistance(scene.network, scene.observed, shape, classes, scene.distance, labels)
        distance.front, distance.features = front, features
        posterior, trials = replace(plain, inversion=distance), case.observation.trials
        weights = [torch.full_like(posterior.weight, 1 / (2 * error**2)) for error in LADDER.errors()]
        starts = latent_starts(posterior, trials, case.budget.restarts, case.streams, 0.0)
        stages = narrowed([posterior.weighted(w) for w in weights], starts, case.budget.iterations, HISTORY)
        return likeliest(posterior, stages, labels, trials, kept=True)


def _features(network: nn.Sequential, case: Case) -> tuple[nn.Sequential, Tensor]:
    """Return the layers before the first affine one, and what each trial's image is after them, [T, F]."""
    update = case.observation.update
    for place, (name, layer) in enumerate(network.named_children()):
        if isinstance(layer, nn.Linear) and f"{name}.bias" in update:
            found = layer_input(update[f"{name}.weight"], update[f"{name}.bias"])
            if not bool(found.isfinite().all()):
                break
            return network[:place], found
    raise UserError("no affine layer gives its input away")


# Who of them is called.

DRAWS, KNOWN, LIKE = 16, 4, 3
"""Draws of a guest's that are looked at, those that are turned back, and public images by which two are told apart."""


def informed(exposure: Exposure, facts: Sequence[Fact]) -> Iterator[Attacker]:
    """Yield the attackers that facts call for beside those of ``by_rule``."""
    found = {fact.name: fact.value for fact in facts}
    if "orthogonal" in found:
        yield Attacker("rule", "orthogonal-and-as-long", ACROSS, Across())
    if exposure.arena.samples > 1 or exposure.arena.file.sentences:
        return
    if found.get("changes the samples", {}).get("samples") == [1]:
        yield Attacker("rule", "samples-turned-back", TurnedBack(_changes(exposure), exposure.arena.public))
    if "changes the network" in found:
        yield Attacker("rule", "features-first", FeaturesFirst())


def _changes(exposure: Exposure) -> list[Change]:
    """Return what the guest makes of an image in the first draws that differ."""
    public, changes, seen = exposure.arena.public, list[Change](), list[Tensor]()
    for draw in range(DRAWS):
        change = partial(_changed_by, exposure, draw)
        found = torch.cat([change(public.images[k : k + 1], public.labels[k : k + 1]) for k in range(LIKE)])
        if len(changes) < KNOWN and not any(torch.equal(found, one) for one in seen):
            changes.append(change)
            seen.append(found)
    return changes


def _changed_by(exposure: Exposure, draw: int, images: Tensor, labels: Tensor) -> Tensor:
    moment = replace(exposure.moments[0], batch={"images": images, "labels": labels}, client=FIRST_CLIENT, draw=draw)
    return samples_of(exposure.subject, moment)["images"]
