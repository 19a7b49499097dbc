"""Splitting: a search and a denoiser take turns, so that a learnt prior leads where a Gaussian knows too little.

After the first stage of a search (``posterior.narrowed``), each further one has a level of noise s, and in it, some
times over::

    m = D(x, s, y),    x = m + V_y diag(sqrt(l_k s^2 / (l_k + s^2))) z,    z ~ N(0, 1), sought from 0

The prior of a turn is a Gaussian around the denoised guess, as wide as what the class's Gaussian would not know of an
image that it sees through noise of deviation s. As s grows it becomes the class's Gaussian, and m its mean. It is the
place of the nearest public images (``posterior.refined``), with a denoiser in place of the neighbours.

Source: half-quadratic splitting with a denoiser, "Learning Deep CNN Denoiser Prior for Image Restoration" (Zhang et
al.); that the prior of a turn is a Gaussian of the class and not the identity's is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import torch
from torch import Tensor

from leaklab.attacks.latents.posterior import Posterior, narrowed
from leaklab.attacks.search.backtracking import Descent
from leaklab.models.base import Shape
from leaklab.models.generators.base import Generator
from leaklab.models.generators.denoising import DenoisingGenerator
from leaklab.records.bounds import Count, Natural, Positive
from leaklab.records.errors import UserError
from leaklab.records.record import Component


class AroundGuesses(Generator):
    """Each image is a class of its own, a Gaussian around a guess; images of one class share their components.

    Attributes:
        mean: guesses [N, P].
        factors: components times deviations, [G, P, P].
        groups: [N], which of them an image has.
    """

    mean: Tensor
    factors: Tensor
    groups: Tensor

    def __init__(self, guesses: Tensor, factors: Tensor, groups: Tensor, image_shape: Shape) -> None:
        super().__init__(factors.shape[2], len(guesses), image_shape)
        self.register_buffer("mean", guesses)
        self.register_buffer("factors", factors)
        self.register_buffer("groups", groups)

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """[N', P], one-hot [N', N] -> [N', C, H, W]; differentiable in the latents."""
        flat, own = classes @ self.mean, self.groups[classes.argmax(1)]
        for group in sorted(set(own.tolist())):
            rows = (own == group).nonzero()[:, 0]
            flat = flat.index_add(0, rows, latents[rows] @ self.factors[group].T)
        return flat.view(-1, *self.image_shape)


@dataclass(frozen=True)
class Splitting:
    """Settings of a search that takes turns with a denoiser; base of the attacks that can.

    Attributes:
        splits: levels of noise, one for each stage after the first; those beyond the search's stages have the
            likelihood of the last one. 0 for none: the Gaussian of the class alone. It takes one restart and no
            refinements.
        split_coarsest: deviation of the noise at the first level, on the [0, 1] scale.
        split_finest: the same at the last one; those between have equal ratios.
        split_turns: how often guess and prior are made anew at each level.
        split_last: whether all stages come first, under the Gaussian, and the levels after them: for batches, whose
            images of one class begin alike and would get one face.
    """

    splits: Natural = 0
    split_coarsest: Positive = 0.5
    split_finest: Positive = 0.2
    split_turns: Count = 2
    split_last: bool = False

    def require_levels(self, attack: str, refinements: int) -> None:
        """Refuse levels that rise, and two ways to make the prior anew.

        Raises:
            UserError: says what to set.
        """
        if self.split_finest > self.split_coarsest:
            raise UserError(f"{attack} narrows its splits: lower split_finest to at most split_coarsest")
        if self.splits and refinements:
            raise UserError(f"{attack} takes splits or refinements, not both: set one of them to 0")

    def levels(self) -> list[float]:
        """Return the deviations of the noise, the largest first; one alone is ``split_coarsest``."""
        ratio = self.split_finest / self.split_coarsest
        return [self.split_coarsest * ratio ** (number / max(1, self.splits - 1)) for number in range(self.splits)]

    def split(
        self, posteriors: Sequence[Posterior], starts: Tensor, iterations: int, history: int
    ) -> tuple[Posterior, list[Descent]]:
        """Return the posterior of the last turn and where the starts ended in each stage and turn.

        Args:
            posteriors: of the search's stages, the widest first, under one generator that denoises.
            starts: [T * R, n]; see ``posterior.latent_starts``.
            iterations: evaluations per stage; a level has half as many, which its turns share.
            history: pairs kept by L-BFGS.

        Raises:
            UserError: the generator is no denoiser, or there are more stages than levels and one.
        """
        generator = posteriors[0].scene.generator
        if not isinstance(generator, DenoisingGenerator):
            raise UserError(f"{posteriors[0].scene.attack} splits with a denoiser: set generator model: denoiser")
        if not self.split_last and self.splits + 1 < len(posteriors):
            raise UserError(
                f"{posteriors[0].scene.attack} has {len(posteriors)} stages and {self.splits} levels of noise: "
                f"give splits at least {len(posteriors) - 1}, or set split_last"
            )
        before = len(posteriors) if self.split_last else 1
        stages, posterior = narrowed(list(posteriors[:before]), starts, iterations, history), posteriors[before - 1]
        rows = torch.arange(len(posterior.classes), device=starts.device)  # one start each, see ``require_one_guess``
        for number, level in enumerate(self.levels()):
            likelihood = posteriors[min(before + number, len(posteriors) - 1)]
            for _ in range(self.split_turns):
                posterior, begun = turned(posterior, stages[-1].points, rows, likelihood, level)
                share = ceil(iterations / (2 * self.split_turns))
                stages = [*stages, *narrowed([posterior], begun, share, history)]
        return posterior, stages


def without_splits(attack: Component) -> Component:
    """Return an attack that leaves its search whole."""
    return attack.model_copy(update={"settings": {**attack.settings, "splits": 0}})


def turned(
    posterior: Posterior, points: Tensor, rows: Tensor, likelihood: Posterior, level: float
) -> tuple[Posterior, Tensor]:
    """Return the posterior of a turn and its start: the denoised images of what was found, and a Gaussian around them.

    Args:
        posterior: under which the unknowns ``points`` [S, n] of trials ``rows`` [S] make images.
        points: what was found so far.
        rows: of one start per trial.
        likelihood: the posterior whose generator denoises and whose likelihood and classes are used.
        level: deviation of the noise.
    """
    generator = likelihood.scene.generator
    assert isinstance(generator, DenoisingGenerator)
    with torch.no_grad():
        images = posterior.images(points, rows).flatten(0, 1)
        classes = likelihood.classes[rows].flatten(0, 1)
        guesses = generator.denoised(images, images.new_full((len(images),), level), classes)
        labels = classes.argmax(1) % len(generator.factor)
        found = sorted(set(labels.tolist()))
        factors = torch.stack([generator.left(level, label) for label in found])
        groups = torch.tensor([found.index(label) for label in labels.tolist()], device=labels.device)
    around = AroundGuesses(guesses.flatten(1), factors, groups, generator.image_shape)
    own = torch.eye(len(guesses)).to(guesses).view(*likelihood.classes.shape[:2], -1)
    next_one = replace(likelihood, scene=replace(likelihood.scene, generator=around.frozen()), classes=own)
    latents = points.new_zeros(len(points), next_one.unknowns - next_one.others)
    return next_one, torch.cat([latents, posterior.other(points)], 1)
