"""Posterior of the latents of an update whose local steps a law tells apart: each has a gradient of its own.

What a defense does to a step depends on that step's gradient, and what the server sees is their sum. So the steps are
simulated one after another, and the law (``distances.StepLikelihood``) is given the gradients of all of them in place
of their mean. Where the client stood in its second step depends on what the defense had made of the first one; the law
says what to expect (``moved``), and what it cannot know is an error of the rate times the curvature.

Source: local steps of "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1; the
attacker is ours.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.latents.posterior import Posterior, own_batches
from leaklab.attacks.latents.scene import Scene
from leaklab.attacks.matching.distances import ALIKE, Distance, OfTheMean, StepLikelihood, is_log_likelihood
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.steps import LocalSteps, Moves, coefficients, stepping, steps_of
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class PrescribedRound:
    """The local steps that the server prescribed.

    Attributes:
        rates: [E].
        steps: the client's optimizer and batch order.
        moves: see ``steps.Moves``.
    """

    rates: Tensor
    steps: LocalSteps
    moves: Moves

    def gradients(self, network: nn.Sequential, images: Tensor, targets: Tensor) -> list[Tensor]:
        """Return the gradients of all steps, [T, E, *parameter] per parameter in the network's order."""
        rates = self.rates.to(images).expand(len(images), -1)
        done = [one.gradients for one in stepping(network, images, targets, rates, self.steps, self.moves)]
        return [torch.stack([gradients[name] for gradients in done], 1) for name in done[0]]


class StepInversion(Inversion):
    """Matching loss of S trials whose distance is given the gradients of all steps, [S, E, ...] per parameter.

    Args:
        scene: with such a distance.
        labels: [T, n] of all samples of a client's round.
        of_round: the steps.
    """

    def __init__(self, scene: Scene, labels: Tensor, of_round: PrescribedRound) -> None:
        shape = (labels.shape[1], *scene.generator.image_shape)
        super().__init__(scene.network, scene.observed, shape, scene.generator.num_classes, scene.distance, labels)
        self._gradients = of_round.gradients
        self._steps = len(of_round.rates)

    def loss_of_nothing(self) -> Tensor:
        """Return the loss of all-zero gradients, [T]."""
        nothing = [torch.zeros_like(o)[:, None].expand(-1, self._steps, *o.shape[1:]) for o in self.observed]
        return self.distance(nothing, self.observed)[0]


def stepwise_posteriors(
    scene: Scene, law: StepLikelihood | Distance, errors: list[float], labels: Tensor, box: float
) -> list[Posterior]:
    """Return the posteriors of a scene's trials at each error of the law, for labels [T, B]; the law weighs 1.

    Args:
        scene: whose observation is the mean of the steps' gradients, weighed as the server prescribed.
        law: of the steps; or that of their mean, which has no errors (``matching.is_log_likelihood``).
        errors: see ``likelihood``, largest first.
        labels: of one batch that all steps repeat, or of one for each step.
        box: see ``Posterior``.

    Raises:
        UserError: the observation is the mean of several rounds, the law does not tell steps apart, or facts are
            withheld.
    """
    if scene.knowledge.rounds > 1:
        raise UserError(
            f"{scene.attack} simulates the steps of one round, and the observation is the mean of "
            f"{scene.knowledge.rounds}: set place: sent"
        )
    rates = scene.knowledge.assumed_rates(scene.attack)
    steps = steps_of(scene.knowledge, own_batches(scene, labels), scene.attack)
    _, moved = coefficients(rates, steps.momentum, steps.weight_decay)
    shares = tuple(one / sum(moved) for one in moved)
    if isinstance(law, StepLikelihood):
        distances = [law.of_steps(error, scene.observation.weights, shares) for error in errors]
        moves = _moved_by(law)
    else:
        distances, moves = [_of_mean(law, shares, scene.attack)], dict
    of_round = PrescribedRound(torch.tensor(rates, dtype=torch.float64), steps, moves)
    targets = F.one_hot(labels, scene.generator.num_classes).to(scene.observed[0])
    ones = scene.observed[0].new_ones(len(labels))
    scenes = [replace(scene, distance=one) for one in distances]
    return [Posterior(one, StepInversion(one, labels, of_round), targets, ones, box) for one in scenes]


def _of_mean(law: Distance, shares: tuple[float, ...], attack: str) -> Distance:
    """Return the distance of normal noise as one of several steps."""
    if not is_log_likelihood(law):
        raise UserError(f"{attack}: this transform's law does not tell steps apart: set place: sent")
    clips = getattr(law, "bound", None) is not None
    if len(shares) > 1 and (clips or max(shares) - min(shares) > ALIKE):
        raise UserError(f"{attack} knows the noise of several steps at one rate and without a clip: set place: sent")
    return OfTheMean(law, shares)


def _moved_by(law: StepLikelihood) -> Moves:
    """Return what a client's gradients become under a law, tensor by tensor."""
    return lambda gradients: {name: law.moved(gradient) for name, gradient in gradients.items()}
