"""Residual peel: read one image off a residual network in evaluation state, from its head to the picture.

Matching stalls there: the gradient jumps with every ReLU, and those of late layers enter the errors of all before. So
the network is taken apart (``residual/``): the head gives the last errors away, each convolution's gradient its input
by linear algebra, and that the cells which are on; below, where there are more cells than equations, the picture is the
one that makes the maps that are known. A hidden factor on the update changes nothing.

What is certified makes the maps, and the gradients of all layers, and is determined by them. Maps alone are certified
one by one; a probe shows these (``leaklab probe``).

Source: ours; see ``residual/last_map``, ``residual/fits`` and ``residual/closing``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction, require_finite, victim
from leaklab.attacks.labels.head import head, layer_input
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.pooling.picture import GaussianPrior
from leaklab.attacks.residual.closing import Closed, Closing
from leaklab.attacks.residual.peeling import peeled
from leaklab.attacks.residual.picture import WIDTHS, Frontier, behind
from leaklab.attacks.residual.structure import Structure
from leaklab.attacks.starts import StartRecord
from leaklab.models.generators.base import Generator
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.models.normalisation import batch_norms
from leaklab.observations.base import Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.observations.requirements import check_batch
from leaklab.records.bounds import NonNegative
from leaklab.records.errors import UserError
from leaklab.records.traits import AttackTraits

MADE = 2.0
"""Rms error of a gradient's entry that was computed in its type, in steps of that type and units of its rms."""
FITS = 1e-5
"""Misfit of the maps below which it does not tell starts apart; the gradient's does."""


@dataclass(frozen=True)
class ResidualPeel:
    """Read an image off a residual network in evaluation state; made for the generator ``class-gaussian``.

    The budget's iterations are steps in each of five stages of the search for the picture.

    Attributes:
        label_rule: see ``labels.fixed_labels``; the prior is that of the label's class.
        spread: standard deviation of the latents that further starts begin with; the first begins at the mean.
    """

    # an iteration is a step in each of the stages; least squares cost about as much again
    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=10, used=0.5, evaluation_factor=3.0)

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"),
        facts_when={"label_rule": KNOWN_LABELS},
        largest_batch=1,
        most_steps=1,
        generator=True,
    )

    name: ClassVar[str] = "residual-peel"

    label_rule: str = "bias"
    spread: NonNegative = 0.4

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial, one after another; a further start is made only while none is certified.

        A trial of which no map is told is lost: its images are NaN.

        Raises:
            UserError: facts are withheld, the network is not of the form or normalises by the batch, the client keeps
                its head to itself, there are several samples per update or noise on it, nothing is told of any trial,
                or the generator makes no Gaussian of the victim's images.
        """
        check_batch(self.name, case.shape(self.name)[0])
        require_finite(case.observation, self.name)
        precise = torch.finfo(next(iter(case.observation.update.values())).dtype).eps
        observation = case.observation.as_direction().in_dtype(torch.float64)
        network, shape = victim(observation, case.knowledge, self.name), case.shape(self.name)[1:]
        if observation.mode == "train" and batch_norms(network):
            raise UserError(
                f"attack '{self.name}' needs evaluation state, and the client normalises by its batch: capture with "
                "mode: eval, or choose another attack"
            )
        structure = Structure(network, shape, f"attack '{self.name}'")
        generator = self._generator(case)
        labels = fixed_labels(self.name, self.label_rule, observation, case.knowledge, case.distance)
        noise = rounding(observation, precise)
        found, reasons = [], []
        for row, trial in enumerate(observation.trials):
            gradients = {name: one[row] for name, one in observation.update.items()}
            read = peeled(structure, gradients, noise[row])
            prior = self._prior(case, generator, int(labels[row, 0]), observation.like)
            frontier = Frontier(read)
            reasons += [] if frontier.bends else [read.why]
            closing = Closing(frontier, prior, gradients, noise[row]) if frontier.bends else None
            found.append(self._starts(case, trial, closing, prior, shape))
        if len(reasons) == len(found):
            raise UserError(f"attack '{self.name}': {reasons[0]}: choose annealed-map")
        return Reconstruction.of_starts(
            torch.stack([images for images, *_ in found]),
            torch.stack([losses for _, losses, *_ in found]),
            labels,
            tuple(record for *_, records in found for record in records),
            certified=torch.tensor([certified for _, _, certified, _ in found]),
        )

    def _starts(
        self, case: Case, trial: int, closing: Closing | None, prior: GaussianPrior, shape: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, bool, list[StartRecord]]:
        """Return pictures [R, 1, C, H, W] and losses [R] of all starts, whether the best is certified, and records."""
        restarts, steps = case.budget.restarts, case.budget.iterations
        pictures = prior.mean.new_full((restarts, 1, *shape), torch.nan)
        losses, certified, records = prior.mean.new_full((restarts,), torch.inf), False, list[StartRecord]()
        for number in range(restarts if closing is not None else 0):
            assert closing is not None
            start = case.streams("start", trial, number).normal(prior.factor.shape[1]).to(prior.mean)
            rough = behind(closing.frontier, prior, steps=steps, start=self.spread * start * (number > 0))
            closed = closing.closed(rough)
            loss = _loss(closed)
            certified = closed.certified if bool((loss < losses).all()) else certified
            pictures[number], losses[number] = closed.picture, loss
            stopped = "matched" if closed.certified else "budget"
            records.append(StartRecord(trial, number, loss, steps, len(WIDTHS) * steps, False, stopped))
            if closed.certified:
                break
        return pictures, losses, certified, records

    def _generator(self, case: Case) -> ClassGaussianGenerator:
        """Return the generator of the case.

        Raises:
            UserError: it is none of Gaussians, or does not make the victim's images and classes.
        """
        generator: Generator = case.prior(self.name)
        generator.require(case.shape(self.name)[1:], case.classes(self.name))
        if not isinstance(generator, ClassGaussianGenerator):
            raise UserError(
                f"attack '{self.name}' takes Gaussians of public images: choose the generator class-gaussian"
            )
        return generator

    def _prior(self, case: Case, generator: ClassGaussianGenerator, label: int, like: Tensor) -> GaussianPrior:
        """Return the prior of a class's pictures as the network takes them."""
        low, high = case.knowledge.require("input_range", self.name)
        mean, factor = generator.mean[label].detach().to(like), generator.factor_of(label).detach().to(like)
        ends = torch.full_like(mean, low), torch.full_like(mean, high)
        return GaussianPrior(low + (high - low) * mean, (high - low) * factor, *ends)


def rounding(observation: Observation, precise: float) -> list[Mapping[str, float]]:
    """Return the rms error of the entries of each trial's gradients, by name.

    What was computed in a type has errors of its steps. Where a gradient is a difference of weights these were rounded
    too, in proportion to their size: what the head tells twice says by how much.

    Args:
        observation: gradients up to a factor.
        precise: step of the type that the update was sent in.
    """
    own = head(observation)
    inputs = layer_input(own.weight_update, own.bias_update)
    rest = own.weight_update - own.bias_update[:, :, None] * inputs[:, None, :]
    told = rest.flatten(1).square().mean(1).sqrt() / own.weight.square().mean().sqrt()
    found: list[Mapping[str, float]] = []
    for row, lost in enumerate(told.tolist()):
        sizes = {name: float(one[row].square().mean().sqrt()) for name, one in observation.update.items()}
        weights = {name: float(one.square().mean().sqrt()) for name, one in observation.weights.items()}
        found.append({name: MADE * precise * size + lost * weights[name] for name, size in sizes.items()})
    return found


def _loss(closed: Closed) -> float:
    """Return the geometric mean of two relative misfits, of the maps and of the worst layer's gradient."""
    loss: float = (max(closed.misfit, FITS) * max(closed.worst, FITS)) ** 0.5
    return loss


PLUGIN = ResidualPeel
