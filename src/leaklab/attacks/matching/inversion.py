"""The objective of gradient matching: dummy samples of many trials in, matching loss and its derivative out."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.matching.gradients import TrialGradients, trial_gradients
from leaklab.attacks.matching.steps import LocalSteps, simulated_delta
from leaklab.attacks.search.restarts import SearchResult
from leaklab.attacks.starts import numbered
from leaklab.models.normalisation import unnormalised
from leaklab.records.streams import Stream


@dataclass(frozen=True)
class Dummy:
    """Unpacked unknowns: ``images`` [S, B, C, H, W] and ``targets``, class probabilities [S, B, K]."""

    images: Tensor
    targets: Tensor


class Inversion:
    """Matching loss of S trials as a function of their unknowns [S, n].

    The unknowns of a trial are its images, followed by its label logits where the labels are not fixed.

    Args:
        network: the victim with its weights set; no parameter asks for a gradient.
        observed: observed gradients, one [T, ...] per parameter in the network's order.
        shape: (B, C, H, W) of one trial's samples.
        num_classes: K.
        distance: see ``matching``.
        labels: [T, B] fixed labels, or None to search soft labels jointly.
        gradients: how those of trials are computed; None: as is fastest for many.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None = None,
        gradients: TrialGradients | None = None,
    ) -> None:
        self.network, self.observed, self.shape, self.num_classes = network, observed, shape, num_classes
        self.distance, self.labels = distance, labels
        self._gradients = gradients or trial_gradients(network)
        self._rows: list[int] = []
        self._targets: list[Tensor] = []

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        images = torch.Size(self.shape).numel()
        return images if self.labels is not None else images + self.shape[0] * self.num_classes

    def loss_of_nothing(self) -> Tensor:
        """Return the matching loss of an all-zero gradient, [T]: what relative losses refer to."""
        return self.distance([torch.zeros_like(value) for value in self.observed], self.observed)[0]

    def normal_start(self, draws: Stream) -> Tensor:
        """Return unknowns [n] whose images the network's layers see as draws from N(0, 1); label logits from N(0, 1).

        On the [0, 1] scale before a normalisation, draws from N(0, 1) would be several deviations wide for the network:
        a sigmoid network starts saturated there, and L-BFGS ends where it begins.
        """
        drawn = draws.normal(self.unknowns)
        pixels = torch.Size(self.shape).numel()
        images = unnormalised(self.network, drawn[:pixels].view(self.shape))
        return torch.cat([images.flatten(), drawn[pixels:]]).to(self.observed[0])

    def unpack(self, points: Tensor, rows: Tensor) -> Dummy:
        """Return what the unknowns [S, n] of the trials ``rows`` [S] mean."""
        pixels = torch.Size(self.shape).numel()
        images = points[:, :pixels].view(-1, *self.shape)
        if self.labels is None:
            logits = points[:, pixels:].view(-1, self.shape[0], self.num_classes)
            return Dummy(images, torch.softmax(logits, -1))
        return Dummy(images, F.one_hot(self.labels[rows], self.num_classes).to(points.dtype))

    def reconstruction(self, found: SearchResult, trials: tuple[int, ...]) -> Reconstruction:
        """Return what a search found.

        Args:
            found: the best point of every start.
            trials: number of each of the T trials within the capture.
        """
        rows = torch.arange(len(trials), device=found.points.device)
        targets = self.unpack(found.points[rows, found.chosen()], rows).targets
        candidates = torch.stack([self.unpack(points, rows).images for points in found.points.unbind(1)], 1)
        starts = numbered(found.records, trials)
        return Reconstruction.of_starts(candidates, found.losses, targets.argmax(-1), starts)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the matching loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        points = points.detach().requires_grad_()
        dummy = self.unpack(points, rows)
        gradients = self._gradients(self.network, dummy.images, dummy.targets)
        with torch.no_grad():
            value, residuals, factor = self.distance([g.detach() for g in gradients], self._observed(rows))
        (derivative,) = torch.autograd.grad(gradients, points, residuals)
        return value, derivative * factor[:, None]

    def _observed(self, rows: Tensor) -> list[Tensor]:
        # the observed gradients are far larger than the unknowns: copied only when the set of trials changes
        wanted = rows.tolist()
        if wanted != self._rows:
            self._rows, self._targets = wanted, [value[rows] for value in self.observed]
        return self._targets


# The objective of update matching: dummy samples train as the client did, and the updates are compared.


class UpdateInversion(Inversion):
    """Matching loss of S trials whose clients did several local steps, as a function of their unknowns [S, n].

    Args:
        network: the broadcast weights, in evaluation state (or ``models/batch_statistics.py``); no parameter asks for a
            gradient.
        observed: updates in units of a gradient, one [T, ...] per parameter in the network's order.
        shape: (n, C, H, W) of all samples of a client's round.
        num_classes: K.
        distance: see ``matching``.
        labels: [T, n] fixed labels, or None to search soft labels jointly.
        rates: [E], prescribed for each local step.
        steps: the client's optimizer and batch order.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None,
        rates: Tensor,
        steps: LocalSteps,
    ) -> None:
        super().__init__(network, observed, shape, num_classes, distance, labels)
        unit = -float(rates.sum())

        def updates(network: nn.Sequential, images: Tensor, targets: Tensor) -> list[Tensor]:
            delta = simulated_delta(network, images, targets, rates.to(images).expand(len(images), -1), steps)
            return [value / unit for value in delta.values()]

        self._gradients = updates
