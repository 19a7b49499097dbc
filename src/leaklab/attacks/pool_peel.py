"""Pool peel: read one image off a network of two convolutions with max pooling, from its head to the picture.

Matching stalls there: the gradient jumps with every pool winner. So the network is taken apart, in three steps
(``pooling/``): the head gives its input and error away; the second stage's winners and input follow in turns until they
close; the picture is fitted to that input. A hidden factor on the update changes nothing, and neither does dropout
behind the first affine layer.

What is certified agrees with the gradients of both convolutions at hard winners and is determined by them. A closed
second stage alone proves that stage's input, not the picture.

Source: ours; a mixture over the places of a pool, and closing, from measurements of why matching stalls.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Case, Reconstruction, require_finite, victim
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.pooling.closing import CLOSED, TRUSTS, Closing, closed
from leaklab.attacks.pooling.picture import (
    AGAIN,
    LADDER,
    LAST_PASS,
    PASSES,
    FirstStage,
    GaussianPrior,
    Mixture,
    first_output,
    rough,
)
from leaklab.attacks.pooling.stages import Taken, taken_apart
from leaklab.attacks.starts import StartRecord
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.models.normalisation import Normalisation, unnormalised
from leaklab.observations.base import Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.observations.requirements import check_batch
from leaklab.records.bounds import Count, NonNegative, Share
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import AttackTraits

FITS, AGREES, DETERMINED = 1e-5, 1e-3, 1e-4
"""What a certificate may leave: of the first stage's output and of its kernels' gradient, both relative, and of the
expected error of a pixel: 80 dB, as a picture counts as exact from 60."""
SETTLED = (FITS * AGREES) ** 0.5
"""Loss below which no further start is made."""
LAST_QUIET, LAST_TURNS, LEAST_WIDTH = 1e-4, 8, 1e-6
"""Of the last pass, which shakes nothing: it has the right winners already, or will not find them."""
FRESH = 3
"""Every so many starts one begins at a rough picture; the others go on from the best one so far."""


@dataclass(frozen=True)
class PoolPeel:
    """Read an image off conv, ReLU, max pooling, twice, and affine layers; made for the generator ``class-gaussian``.

    The budget's iterations are evaluations in each of three stages of the rough picture.

    Attributes:
        label_rule: see ``labels.fixed_labels``; the prior is that of the label's class.
        turns: of shares and least squares in each of two passes over the picture.
        quiet: share of the largest output of the first stage below which a cell counts as 0: rounding is no activity.
        spread: standard deviation of further starts' latents around the first one's.
    """

    # an iteration is three evaluations of the rough picture; the turns cost as much as five more of the default's
    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=8, used=0.2, evaluation_factor=7.0)

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"),
        facts_when={"label_rule": KNOWN_LABELS},
        largest_batch=1,
        most_steps=1,
        generator=True,
        dropout=True,
    )

    name: ClassVar[str] = "pool-peel"

    label_rule: str = "bias"
    turns: Count = 25
    quiet: Share = 1e-3
    spread: NonNegative = 0.4

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial, one after another; a further start is made only while none settled.

        Raises:
            UserError: facts are withheld, the network is not of the form, the client keeps a layer of it, there are
                several samples per update or noise on it, or the generator makes no Gaussian of the victim's images.
        """
        check_batch(self.name, case.shape(self.name)[0])
        require_finite(case.observation, self.name)
        # evaluation state: a mask of dropout is part of the error that the head tells
        observation = replace(case.observation.as_direction().in_dtype(torch.float64), mode="eval")
        network, shape = victim(observation, case.knowledge, self.name), case.shape(self.name)[1:]
        parts = taken_apart(observation, network, shape, self.name)
        labels = fixed_labels(self.name, self.label_rule, observation, case.knowledge, case.distance)
        prior_of = self._priors(case, observation, network)
        found = [
            self._read(taken, prior_of(label), case, trial)
            for taken, label, trial in zip(parts, labels[:, 0].tolist(), observation.trials, strict=True)
        ]
        pictures = torch.stack([images for images, *_ in found]).view(len(found), -1, 1, *shape)
        return Reconstruction.of_starts(
            unnormalised(network, pictures),
            torch.stack([losses for _, losses, *_ in found]),
            labels,
            tuple(record for *_, records in found for record in records),
            certified=torch.tensor([certified for _, _, certified, _ in found]),
        )

    def _priors(self, case: Case, observation: Observation, network: nn.Sequential) -> Callable[[int], GaussianPrior]:
        """Return the prior of each class.

        Raises:
            UserError: the generator is none of Gaussians, or does not make the victim's images and classes.
        """
        generator = case.prior(self.name)
        generator.require(case.shape(self.name)[1:], case.classes(self.name))
        if not isinstance(generator, ClassGaussianGenerator):
            raise UserError(
                f"attack '{self.name}' takes Gaussians of public images: choose the generator class-gaussian"
            )
        like = observation.like

        def of_class(label: int) -> GaussianPrior:
            mean, factor = generator.mean[label].detach().to(like), generator.factor_of(label).detach().to(like)
            return _as_inputs(mean, factor, case, network, self.name)

        return of_class

    def _read(
        self, taken: Taken, prior: GaussianPrior, case: Case, trial: int
    ) -> tuple[Tensor, Tensor, bool, list[StartRecord]]:
        """Return pictures [R, P] and losses [R] of all starts, whether the best is certified, and records."""
        restarts, steps = case.budget.restarts, case.budget.iterations
        pictures = prior.mean.expand(restarts, -1).clone()
        losses = prior.mean.new_full((restarts,), torch.inf)
        start, closing = prior.mean.new_zeros(1, prior.factor.shape[1]), None
        certified, records = False, list[StartRecord]()
        for number in range(restarts):
            draws = case.streams("start", trial, number)
            moved = start if number == 0 else start + self.spread * draws.normal(*start.shape).to(start)
            if closing is None or not closing.proven:
                moved = rough(taken, prior, moved, steps)
                closing = _closed(taken, first_output(taken, prior.pictures(moved)[0]), draws)
                start = moved if number == 0 or closing.proven else start
            # an input that did not close is worse than any picture behind one that did
            picture, loss, proven = prior.pictures(moved)[0], 1 + closing.residual, False
            if closing.proven:
                best = int(losses.argmin())
                again = number % FRESH > 0 and bool(losses[best] < 1)
                found = self._picture(taken, closing, prior, pictures[best] if again else picture, draws, again)
                picture, loss, proven = found
            certified = proven if bool((loss < losses).all()) else certified
            pictures[number], losses[number] = picture, loss
            stopped = "matched" if loss < SETTLED else "budget"
            records.append(StartRecord(trial, number, loss, steps, len(LADDER) * steps, False, stopped))
            if loss < SETTLED:
                break
        return pictures, losses, certified, records

    def _picture(
        self, taken: Taken, closing: Closing, prior: GaussianPrior, picture: Tensor, draws: Stream, again: bool
    ) -> tuple[Tensor, float, bool]:
        """Return the picture [P] behind a closed stage, its loss, and whether it is certified.

        The loss is the geometric mean of two relative misfits, of the first stage's output and of its kernels'
        gradient: where few cells are active many pictures make the output, and the gradient tells them apart.
        """
        mixture = Mixture(FirstStage.behind(taken, closing, self.quiet), prior)
        for widths in AGAIN if again else PASSES:
            picture, _ = mixture.passed(picture, widths, self.turns, draws)
        mixture = Mixture(FirstStage.behind(taken, closing, LAST_QUIET), prior)
        picture, misfit = mixture.passed(picture, LAST_PASS, LAST_TURNS, None)
        gradient_misfit = mixture.first.gradient_misfit(picture)
        # what rounding raised the bar to lets a search go on, and is above what one wrong winner was seen to leave
        agrees = closing.residual < CLOSED and misfit < FITS and gradient_misfit < AGREES
        determined = agrees and mixture.expected_error(picture, max(misfit, LEAST_WIDTH)) < DETERMINED
        return picture, (max(misfit, FITS) * gradient_misfit) ** 0.5, determined


def _closed(taken: Taken, inputs: Tensor, draws: Stream) -> Closing:
    """Return the closing from one rough input, by the first trust in values that closes."""
    tries = (closed(taken, inputs, draws, trust) for trust in TRUSTS)
    found = next(tries)
    return found if found.proven else min(found, *tries, key=lambda one: one.residual)


@dataclass(frozen=True)
class PoolPeelSmooth(PoolPeel):
    """The same without public images: all that is believed of a picture is that neighbours are alike."""

    # written out, as a plan reads them from the text: those of PoolPeel without the generator
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"),
        facts_when={"label_rule": KNOWN_LABELS},
        largest_batch=1,
        most_steps=1,
        dropout=True,
    )

    name: ClassVar[str] = "pool-peel-smooth"
    MEAN: ClassVar[float] = 0.3
    DEVIATION: ClassVar[float] = 0.35
    LENGTH: ClassVar[float] = 4.0

    def _priors(self, case: Case, observation: Observation, network: nn.Sequential) -> Callable[[int], GaussianPrior]:
        """Return one prior for all classes, whose pixels are alike as exp(-distance / length)."""
        channels, height, width = case.shape(self.name)[1:]
        like = observation.like
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        places = torch.stack([rows.flatten(), columns.flatten()], 1).double()
        alike = self.DEVIATION**2 * torch.exp(-torch.cdist(places, places) / self.LENGTH)
        factor = torch.kron(torch.eye(channels).double(), torch.linalg.cholesky(alike)).to(like)
        prior = _as_inputs(like.new_full((len(factor),), self.MEAN), factor, case, network, self.name)
        return lambda _: prior


def _as_inputs(mean: Tensor, factor: Tensor, case: Case, network: nn.Sequential, attack: str) -> GaussianPrior:
    """Return the prior of a picture as the first convolution takes it, of one on the [0, 1] scale."""
    low, high = case.knowledge.require("input_range", attack)
    ends = mean.new_tensor([low, high]).view(2, 1, 1, 1).expand(2, *case.shape(attack)[1:])
    front = network[0]
    black, white = (front(ends) if isinstance(front, Normalisation) else ends).flatten(1)
    return GaussianPrior(black + (white - black) * mean, (white - black)[:, None] * factor, black, white)


PLUGINS = {
    "pool-peel": PoolPeel,
    "pool-peel-smooth": PoolPeelSmooth,
}
