"""Matching of updates over several local steps: dummy samples are trained on and the deltas are compared.

Both deltas are taken in units of a gradient, divided by minus the nominal rate times the number of steps, so that the
loss is of the size of a gradient matching loss; with one step it is the gradient matching loss.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", section 6; OUTPOST paper,
section III.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.matching.distances import PROFILED_SIZE, Distance, profiled_scale
from leaklab.attacks.matching.steps import PLAIN_STEPS, LocalSteps, gradients_at, simulated_delta
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Samples:
    """How a trial's unknowns begin: with the pixels of its samples, whose labels are fixed.

    Attributes:
        shape: (B, C, H, W).
        num_classes: K.
        labels: [T, B], on the device of the search.
    """

    shape: tuple[int, ...]
    num_classes: int
    labels: Tensor

    def __post_init__(self) -> None:
        if self.labels.dim() != 2 or self.labels.shape[1] != self.shape[0]:
            raise UserError(f"labels {list(self.labels.shape)} do not fit {self.shape[0]} samples per trial")

    @property
    def pixels(self) -> int:
        """Unknowns of the samples of one trial."""
        return torch.Size(self.shape).numel()

    def unpack(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return images [S, B, C, H, W], class probabilities [S, B, K] and the other unknowns [S, n - pixels]."""
        images = points[:, : self.pixels].view(-1, *self.shape)
        targets = F.one_hot(self.labels[rows], self.num_classes).to(points.dtype)
        return images, targets, points[:, self.pixels :]


class DeltaMatching:
    """Matching loss of S trials as a function of their unknowns [S, n], for an attacker who trusts the nominal rate.

    The unknowns of a trial are its images.

    Args:
        network: the broadcast weights, in evaluation state; no parameter asks for a gradient.
        observed: deltas, one [T, ...] per parameter in the network's order.
        samples: see ``Samples``.
        rates: [E] the rates that the server prescribed, positive.
        distance: see ``matching``; it is given both deltas in units of a gradient.
        steps: the client's optimizer and batch order.

    Raises:
        UserError: an observation that is not finite or not of this network, or rates that are not positive.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: Sequence[Tensor],
        samples: Samples,
        rates: Tensor,
        distance: Distance,
        steps: LocalSteps = PLAIN_STEPS,
    ) -> None:
        check_observed(network, observed)
        if rates.dim() != 1 or len(rates) == 0 or not bool((rates > 0).all()) or not bool(rates.isfinite().all()):
            raise UserError("delta matching needs the rate of every local step, all positive: ask for rates [steps]")
        self.network, self.samples, self.rates, self.distance, self.steps = network, samples, rates, distance, steps
        self._unit = -float(rates.sum())
        self._observed = [value / self._unit for value in observed]

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels

    def local_rates(self, others: Tensor) -> Tensor:
        """Return the rates [S, E] that go with the unknowns [S, m] that are no pixels; here there are none."""
        return self.rates.to(others).expand(len(others), -1)

    def loss_of_nothing(self) -> Tensor:
        """Return the loss of an all-zero delta, [T]: what relative losses refer to."""
        return self.distance([torch.zeros_like(value) for value in self._observed], self._observed)[0]

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the matching loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        points = points.detach().requires_grad_()
        images, targets, others = self.samples.unpack(points, rows)
        delta = simulated_delta(self.network, images, targets, self.local_rates(others), self.steps)
        simulated = [value / self._unit for value in delta.values()]
        return matched(self.distance, simulated, [value[rows] for value in self._observed], points)


def matched(
    distance: Distance, simulated: Sequence[Tensor], observed: Sequence[Tensor], points: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the distance [S] and its derivative [S, n] for the points from which ``simulated`` was computed."""
    with torch.no_grad():
        value, residuals, factor = distance([s.detach() for s in simulated], observed)
    (derivative,) = torch.autograd.grad(simulated, points, residuals)
    return value, derivative * factor[:, None]


def check_observed(network: nn.Sequential, observed: Sequence[Tensor]) -> None:
    """Refuse an observation that no search could match.

    Raises:
        UserError: it is of another network, or not finite.
    """
    if [value.shape[1:] for value in observed] != [parameter.shape for parameter in network.parameters()]:
        raise UserError("the observed update is not of this network: capture again")
    if not all(bool(value.isfinite().all()) for value in observed):
        raise UserError("the observed update is not finite: the client diverged, so lower its rate and capture again")


def as_delta(observation: Observation, knowledge: Knowledge) -> Observation:
    """Return the delta behind an observation, the inverse of ``Observation.as_gradient``.

    Who does not know the rate or the number of steps can only have turned the sign (``Observation.as_direction``).
    """
    if observation.kind == "delta":
        return observation
    known = all(knowledge.knows(fact) for fact in ("nominal_rate", "local_steps"))
    assumed = knowledge.assumed_rate() if known else 1.0
    return replace(observation.scaled(-assumed), kind="delta")


# The attacker who knows about learning rate perturbation: the local rates are unknowns beside the images.


class JointRates(DeltaMatching):
    """Matching loss for unknown rates: the unknowns of a trial are its images, then E numbers, one per local step.

    A number r of the real line stands for the rate nominal * exp(r), so that 0 stands for the nominal rate, and a
    factor on all rates for the same step in each number.
    """

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels + len(self.rates)

    def local_rates(self, others: Tensor) -> Tensor:
        """Return the rates [S, E] for the unknowns [S, E]."""
        return self.rates.to(others) * torch.exp(others)


# Surrogate model extension (SME): the direction of an update is matched with one gradient on the way.


class Surrogate:
    """Loss of S trials as a function of their unknowns [S, n]: the images, then one number for the place.

    The number r stands for a = 1 / (1 + exp(-r)) in (0, 1), the surrogate weights are W_0 + a delta, and the loss is
    ``profiled_scale`` of the gradient there against minus the delta, plus penalty * u * (a - 1/2)^2 with u = 1000, the
    ``profiled_scale`` of a zero gradient.

    Args:
        network: the broadcast weights, in evaluation state; no parameter asks for a gradient.
        observed: deltas, one [T, ...] per parameter in the network's order.
        samples: see ``Samples``.
        penalty: keeps the place from wandering where it hardly matters; relative to the loss of a zero gradient.

    Raises:
        UserError: an observation that is not finite or not of this network.
    """

    def __init__(
        self, network: nn.Sequential, observed: Sequence[Tensor], samples: Samples, penalty: float = 1e-3
    ) -> None:
        check_observed(network, observed)
        self.network, self.samples, self.penalty = network, samples, penalty * PROFILED_SIZE
        self._observed = list(observed)

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels + 1

    def place(self, others: Tensor) -> Tensor:
        """Return a [S] for the unknown [S, 1]."""
        return torch.sigmoid(others[:, 0])

    def loss_of_nothing(self) -> Tensor:
        """Return the loss of an all-zero gradient, [T]: what relative losses refer to."""
        return profiled_scale([torch.zeros_like(value) for value in self._observed], self._observed)[0]

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        points = points.detach().requires_grad_()
        images, targets, others = self.samples.unpack(points, rows)
        place = self.place(others)
        observed = [value[rows] for value in self._observed]
        weights = {
            name: before + place.view(-1, *[1] * before.dim()) * delta
            for (name, before), delta in zip(self.network.named_parameters(), observed, strict=True)
        }
        gradients = gradients_at(self.network, weights, images, targets)
        value, derivative = matched(profiled_scale, [-g for g in gradients.values()], observed, points)
        away = place.detach() - 0.5
        derivative[:, -1] += 2 * self.penalty * away * (0.25 - away**2)
        return value + self.penalty * away**2, derivative
