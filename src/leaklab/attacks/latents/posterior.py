"""Posterior of the latents of all images of an update: how well they explain it, and how likely they are at all.

With a generator G whose latents z are N(0, 1), and images x = G(z, y)::

    -log p(z | o) = weight * D(g(x), o) + 1/2 |z|^2 + box * sum of (x - clip(x, 0, 1))^2

up to a constant: D is a matching distance, ``weight`` makes a log-likelihood of it, and the box says that pixels have
a range, also where a generator's images leave it. Other attacks have one weight on their prior, in units of the
distance; here the prior is a density and needs none, so the weight is on the distance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.base import Budget, Reconstruction, Streams
from leaklab.attacks.latents.scene import Scene
from leaklab.attacks.matching.delta import DeltaMatching
from leaklab.attacks.matching.inversion import Inversion, UpdateInversion
from leaklab.attacks.matching.steps import batch_order, steps_of
from leaklab.attacks.search.backtracking import Descent, descend
from leaklab.attacks.starts import StartRecord
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator, principal
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Posterior:
    """Negative logarithm of the posterior of T trials; an ``attacks.search.Objective``.

    The unknowns of a trial are the latents of its B images, one after the other.

    Attributes:
        scene: whose generator makes images of latents.
        inversion: the distance as a function of the images, whose labels are fixed, and of the other unknowns.
        classes: [T, B, K] one-hot labels.
        weight: [T] on the distance.
        box: weight of the squares by which pixels leave [0, 1].
    """

    scene: Scene
    inversion: Inversion | DeltaMatching
    classes: Tensor
    weight: Tensor
    box: float

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.classes.shape[1] * self.scene.generator.latent_size + self.others

    @property
    def others(self) -> int:
        """Number of unknowns that are no latents; here there are none."""
        return 0

    def latents(self, points: Tensor) -> Tensor:
        """Return the latents [S, B, d] among the unknowns [S, n]."""
        return points[:, : self.unknowns - self.others].reshape(len(points), -1, self.scene.generator.latent_size)

    def other(self, points: Tensor) -> Tensor:
        """Return the unknowns [S, m] that are no latents."""
        return points[:, self.unknowns - self.others :]

    def weighted(self, weight: Tensor) -> "Posterior":
        """Return the posterior with another weight [T] on the distance."""
        return replace(self, weight=weight)

    def images(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return the images [S, B, C, H, W] on the [0, 1] scale of the unknowns [S, n] of trials ``rows`` [S]."""
        latents = self.latents(points).flatten(0, 1)
        flat = self.scene.generator.generate(latents, self.classes[rows].flatten(0, 1))
        return flat.view(len(points), -1, *flat.shape[1:])

    def beliefs(self, points: Tensor, images: Tensor) -> Tensor:
        """Return the negative log-density of the prior [S] at ``points`` [S, n], up to a constant."""
        return (self.latents(points) ** 2).flatten(1).sum(1) / 2 + self.box * outside(images)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values [S] at ``points`` [S, n] and their derivatives [S, n]."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            images = self.images(points, rows)
            inputs = torch.cat([self.scene.as_inputs(images).flatten(1), self.other(points)], 1)
            beliefs = self.beliefs(points, images)
        distance, slope = self.inversion(inputs.detach(), rows)
        weight = self.weight[rows]
        total = (inputs * (weight[:, None] * slope)).sum() + beliefs.sum()
        (derivative,) = torch.autograd.grad(total, points)
        return weight * distance + beliefs.detach(), derivative


def posterior_of(scene: Scene, labels: Tensor, box: float) -> Posterior:
    """Return the posterior of a scene's trials for labels [T, B]; the distance weighs 1.

    Where each local step had a batch of its own the labels are those of all steps, and the steps are simulated at the
    rates that the server prescribed; the mean of their gradients is compared.

    Raises:
        UserError: labels that neither fill one batch nor one for each step, or rates that are withheld.
    """
    like, classes = scene.observed[0], scene.generator.num_classes
    inversion = _inversion(scene, labels, (labels.shape[1], *scene.generator.image_shape))
    return Posterior(scene, inversion, F.one_hot(labels, classes).to(like), like.new_ones(len(labels)), box)


def _inversion(scene: Scene, labels: Tensor, shape: tuple[int, ...]) -> Inversion:
    common = (scene.network, scene.observed, shape, scene.generator.num_classes, scene.distance, labels)
    order = own_batches(scene, labels)
    if order is None:
        return Inversion(*common)
    rates = torch.tensor(scene.knowledge.assumed_rates(scene.attack), dtype=torch.float64)
    return UpdateInversion(*common, rates, steps_of(scene.knowledge, order, scene.attack))


def own_batches(scene: Scene, labels: Tensor) -> Tensor | None:
    """Return which samples each step uses, [E, B]; None for one batch, which all steps repeat.

    Args:
        scene: whose facts say how many samples a step has.
        labels: [T, B] of one batch, or of one for each step, in their order.

    Raises:
        UserError: they are neither.
    """
    samples, batch = labels.shape[1], int(scene.knowledge.require("batch_size", scene.attack))
    if samples == batch:
        return None
    return batch_order(samples, batch, int(scene.knowledge.require("local_steps", scene.attack)))


def outside(images: Tensor) -> Tensor:
    """Return the sum of the squares by which the pixels [S, ...] leave [0, 1]: [S]."""
    return ((images - images.clamp(0, 1)) ** 2).flatten(1).sum(1)


# A Gaussian of the public images that are most like a first guess, in place of that of their class.

FLOOR = 0.03  # least standard deviation along a component: fewer images know fewer directions
COMPONENTS = 300  # the largest ones of the neighbours, fewer where these are fewer or their pixels


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


def latent_starts(
    posterior: Posterior, trials: tuple[int, ...], restarts: int, streams: Streams, spread: float
) -> Tensor:
    """Return the first unknowns of all starts, those of one trial after another: [T * R, n]."""
    alone = posterior.classes.shape[1] == 1

    def start_of(trial: int, number: int) -> Tensor:
        width = 0.0 if alone and number == 0 else spread
        return width * streams("start", trial, number).normal(posterior.unknowns)

    points = [start_of(trial, number) for trial in trials for number in range(restarts)]
    return torch.stack(points).to(posterior.classes)


def narrowed(posteriors: list[Posterior], starts: Tensor, iterations: int, history: int) -> list[Descent]:
    """Return where the starts [T * R, n] ended under each posterior; each begins where the one before ended.

    Args:
        posteriors: of the same T trials and unknowns, the widest first.
        starts: see ``latent_starts``.
        iterations: evaluations per posterior.
        history: pairs kept by L-BFGS.
    """
    trials = torch.arange(len(posteriors[0].classes), device=starts.device)
    rows = trials.repeat_interleave(len(starts) // len(trials))
    stages: list[Descent] = []
    for posterior in posteriors:
        points = stages[-1].points if stages else starts
        stages.append(descend(posterior, points, rows, iterations, history))
    return stages


def require_one_guess(attack: str, budget: Budget) -> None:
    """Refuse several starts of a search that is to be refined.

    Raises:
        UserError: says what to set.
    """
    if budget.restarts > 1:
        raise UserError(f"{attack} refines a single guess: set restarts: 1, or refinements: 0")


def refined(
    posterior: Posterior,
    stages: list[Descent],
    refinements: int,
    neighbours: int,
    narrow: Callable[[Posterior, Tensor], list[Descent]],
) -> tuple[Posterior, list[Descent]]:
    """Return the posterior under the prior of the public images nearest to what was found, and all stages so far.

    Args:
        posterior: of T trials, with the labels that its inversion has.
        stages: of one start per trial.
        refinements: how often the neighbours are looked up; 0 for never.
        neighbours: see ``near_posterior``.
        narrow: searches such a posterior from unknowns [T, n].

    Raises:
        UserError: the generator keeps no images.
    """
    of_class, labels = posterior, posterior.classes.argmax(-1)
    rows = torch.arange(len(labels), device=labels.device)
    for _ in range(refinements):
        with torch.no_grad():
            guess = posterior.images(stages[-1].points, rows)
        posterior = near_posterior(of_class, guess, labels, neighbours)
        stages = [*stages, *narrow(posterior, guess.new_zeros(len(labels), posterior.unknowns))]
    return posterior, stages


def likeliest(
    posterior: Posterior, stages: list[Descent], labels: Tensor, trials: tuple[int, ...], *, kept: bool
) -> Reconstruction:
    """Return the images of all starts, and of each trial those of the likeliest one.

    Args:
        posterior: that of the last stage.
        stages: see ``narrowed``.
        labels: [T, B].
        trials: number of each trial within the capture.
        kept: whether the latents are those of a generator that is kept, as those of a refined search are not.
    """
    number, last = len(trials), stages[-1]
    rows = torch.arange(number, device=labels.device)
    losses = last.losses.view(number, -1)
    points = last.points.view(number, losses.shape[1], -1)
    with torch.no_grad():
        images = torch.stack([posterior.images(one, rows) for one in points.unbind(1)], 1)
        candidates = posterior.scene.as_inputs(images)
    latents = posterior.latents(points[rows, losses.argmin(1)]) if kept else None
    return Reconstruction.of_starts(candidates, losses, labels, _records(stages, trials), latents=latents)


def _records(stages: list[Descent], trials: tuple[int, ...]) -> tuple[StartRecord, ...]:
    """Return one record per start, with the work of all its stages and the loss of the last."""
    last = stages[-1]
    restarts = len(last.losses) // len(trials)
    steps, evaluations = (sum(getattr(stage, name) for stage in stages) for name in ("iterations", "evaluations"))
    return tuple(
        StartRecord(
            trial=trials[place // restarts],
            start=place % restarts,
            matching_loss=float(last.losses[place]),
            iterations=int(steps[place]),
            evaluations=int(evaluations[place]),
            diverged=not bool(last.losses[place].isfinite()),
            stopped=_reason(last, place),
        )
        for place in range(len(last.losses))
    )


def _reason(last: Descent, place: int) -> str:
    """Return why a start ended; see ``starts.STOPPED``."""
    if not bool(last.losses[place].isfinite()):
        return "diverged"
    return "stagnated" if bool(last.stalled[place]) else "budget"
