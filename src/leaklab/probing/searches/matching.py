"""How far a simulated round is from what was sent, plus how unlikely its samples are: what searches minimise."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import hypot, inf, sqrt

import torch
from torch import Tensor

from leaklab.attacks.matching.distances import PROFILED_SIZE, Distance, profiled_scale, squared_l2, squared_norm
from leaklab.attacks.search.restarts import Objective
from leaklab.probing.exchange import Exchange
from leaklab.probing.searches.beliefs import Beliefs
from leaklab.probing.searches.optimizers import SOFT
from leaklab.probing.searches.simulation import Simulation
from leaklab.probing.searches.targets import Targets
from leaklab.records.errors import UserError

SUREST = 100.0
"""Weight of a tensor without noise beside the one with least."""
NOTHING: Mapping[str, float] = {}
BOX = 100.0
"""Weight of the squares by which samples leave their range, beside a negative log-density."""


@dataclass(frozen=True)
class Deadline:
    """When a search has to end.

    Attributes:
        until: by ``clock``, in seconds.
        clock: that of the wall, or of the processor.
    """

    until: float
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float]) -> "Deadline":
        """Return the deadline so many seconds from now."""
        return cls(clock() + seconds, clock)

    @property
    def left(self) -> float:
        """Seconds that are left; negative once it is over."""
        return self.until - self.clock()

    def part(self, share: float) -> "Deadline":
        """Return the deadline after a share of what is left."""
        return Deadline.after(share * self.left, self.clock)


class OutOfTime(Exception):  # noqa: N818 - nothing went wrong
    """The time of a search is over; what it found stands."""


@dataclass(frozen=True)
class Sent:
    """What was sent, in units of its length, and how a simulation of it is compared.

    Attributes:
        simulation: of the client.
        tensors: of ``simulation.names``, each [1, ...]; together of length 1.
        length: of what was sent.
        weights: of each tensor in a comparison, smaller where noise is larger; empty for 1.
        narrowest: relative error below which nothing is told of an entry, because of noise; 0 for none.
        noise: length of all that noise adds, relative to what was sent.
    """

    simulation: Simulation
    tensors: list[Tensor]
    length: float
    weights: tuple[float, ...] = ()
    narrowest: float = 0.0
    noise: float = 0.0

    @classmethod
    def of(
        cls, simulation: Simulation, exchange: Exchange, noise: float = 0.0, missed: Mapping[str, float] = NOTHING
    ) -> "Sent":
        """Return what was sent in an exchange.

        Args:
            simulation: of the client.
            exchange: what was sent.
            noise: deviation of each entry that is known besides what the simulation says of its defense.
            missed: of each entry of what is simulated, by tensor, see ``Simulation.missed``.

        Raises:
            UserError: it is zero or not finite.
        """
        observed = [one[None] for one in simulation.observed(exchange)]
        length = sqrt(float(squared_norm([one.double() for one in observed])[0]))
        if not 0 < length < inf:
            raise UserError("what was sent is zero or not finite in all trained parameters: there is nothing to match")
        known = {} if simulation.defended is None else simulation.defended.deviations
        deviations = [hypot(known.get(name, 0.0), noise, missed.get(name, 0.0)) for name in simulation.names]
        noisy = [one for one in deviations if one > 0]
        if not noisy:
            return cls(simulation, [one / length for one in observed], length)
        least = min(noisy)
        weights = tuple(min(least / max(one, 1e-300), SUREST) for one in deviations)
        drawn = [hypot(one, noise) for one in (simulation.drawn(name) for name in simulation.names)]
        of_all = sqrt(sum(one**2 * own.numel() for one, own in zip(drawn, observed, strict=True)))
        units = [one / length for one in observed]
        return cls(simulation, units, length, weights, least / length, of_all / length)

    def distance(self, tensors: list[Tensor], distance: Distance | None = None) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return the square of the relative error [1] of what is simulated, residuals, and a factor [1].

        Args:
            tensors: of a simulation, in its order.
            distance: another one, of tensors in units of the length.
        """
        own, sent = [one[None] / self.length for one in tensors], self.tensors
        if self.weights:
            own, sent = ([w * one for w, one in zip(self.weights, side, strict=True)] for side in (own, sent))
        value, residuals, factor = self._compared(own, sent, distance)
        if self.weights:
            residuals = [w * one for w, one in zip(self.weights, residuals, strict=True)]
        return value, residuals, factor

    def _compared(
        self, own: list[Tensor], sent: list[Tensor], distance: Distance | None
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        if distance is not None:
            return distance(own, sent)
        if self.simulation.scale_free:
            value, residuals, factor = profiled_scale(own, sent)
            return value / PROFILED_SIZE, residuals, factor / PROFILED_SIZE
        return squared_l2(own, sent)

    def error(self, inputs: Tensor, targets: Tensor) -> float:
        """Return how much of what was sent samples leave unexplained, relative to its length.

        They are sent as the client sends them, without the slopes by which a search finds its way; noise is left.
        """
        sent = [one.detach()[None] / self.length for one in self.simulation(inputs, targets, soft=0.0)]
        return sqrt(float(self._compared(sent, self.tensors, None)[0]))


@dataclass(frozen=True)
class Posterior:
    """Matching and beliefs as a function of the unknowns of all samples; an ``attacks.search.Objective``.

    The unknowns are the latents of the samples, one after the other, then those of the targets where these are sought.

    Attributes:
        sent: what is matched.
        beliefs: what samples are like.
        targets: what outputs are compared with.
        weight: on the distance; 1 / (2 s^2) for a relative error of s.
        believed: how much the beliefs count; 0 for nothing but the distance.
        distance: see ``Sent.distance``.
        direct: unknowns are samples on the beliefs' own scale and not latents.
        soft: how much signs are softened, see ``Simulation``.
    """

    sent: Sent
    beliefs: Beliefs
    targets: Targets
    weight: float = 1.0
    believed: float = 1.0
    distance: Distance | None = None
    direct: bool = False
    soft: float = SOFT

    @property
    def numbers(self) -> int:
        """Unknowns of the samples alone."""
        return self.targets.samples * self.beliefs.size

    @property
    def unknowns(self) -> int:
        """Number of all unknowns."""
        return self.numbers + self.targets.unknowns

    def read(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return samples on the own scale [N, d], as they are held [N, ...], and targets [N, ...], of [1, n]."""
        latents = points[0, : self.numbers].view(self.targets.samples, -1)
        own = latents if self.direct else self.beliefs.own(latents, self.targets.classes)
        return own, self.beliefs.samples(own), self.targets(points[0, self.numbers :])

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value [1] at ``points`` [1, n] and its derivative [1, n]."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            own, inputs, targets = self.read(points)
            unlikely = points.square().sum() / 2
            if self.beliefs.boxed:
                unlikely = unlikely + BOX * (own - own.clamp(0, 1)).square().sum()
            unlikely = self.believed * unlikely
            simulated = self.sent.simulation(inputs, targets, soft=self.soft)
        value, residuals, factor = self.sent.distance([one.detach() for one in simulated], self.distance)
        scale = self.weight * factor / self.sent.length
        outer = [(scale * one)[0] if one.dim() == 1 else scale * one[0] for one in residuals]
        (slope,) = torch.autograd.grad([*simulated, unlikely], points, [*outer, torch.ones_like(unlikely)])
        return self.weight * value + unlikely.detach(), slope


@dataclass
class Timed:
    """An objective of one problem that ends a search when its time is over, and keeps the best point.

    Attributes:
        objective: what is evaluated.
        deadline: when to end.
        best: point of the smallest value so far [1, n]; None before the first one.
        value: that value.
        evaluations: so far.
    """

    objective: Objective
    deadline: Deadline
    best: Tensor | None = None
    value: float = inf
    evaluations: int = 0

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return value and derivative.

        Raises:
            OutOfTime: the time is over, and there is a best point.
        """
        if self.best is not None and self.deadline.left < 0:
            raise OutOfTime
        value, slope = self.objective(points, rows)
        self.evaluations += 1
        if self.best is None or float(value) < self.value:
            self.best, self.value = points.detach().clone(), float(value)
        return value, slope
