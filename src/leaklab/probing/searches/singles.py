"""Gradients of single samples, and which sum of them explains best what was sent.

What a client sends of a batch is nearly the mean of its samples' gradients: exactly after one step of plain gradient
descent without normalisation by the batch, less so after several. A fit with weights that are not negative says which
samples, or which classes, it is made of (``scipy.optimize.nnls``).
"""

from dataclasses import dataclass

import torch
from scipy.optimize import nnls
from torch import Tensor

from leaklab.probing.exchange import Exchange
from leaklab.probing.searches.simulation import Simulation
from leaklab.records import tensor_algebra
from leaklab.records.streams import stream

LEAST_SQUARE = 1e-13
"""Relative size from which on an eigenvalue of inner products is no rounding."""
MOST_ENTRIES = 50_000
"""Entries of a gradient that are compared, drawn at random of more: inner products of so many are right to 1 %."""


@dataclass(frozen=True)
class Singles:
    """Gradients beside what was sent, at the same entries.

    Attributes:
        gradients: of M samples, [M, E] float64.
        sent: as a direction of descent, [E].
    """

    gradients: Tensor
    sent: Tensor

    def cosines(self) -> Tensor:
        """Return the cosine of each gradient with what was sent, [M]; 0 of a gradient of zero."""
        lengths = self.gradients.norm(dim=1) * self.sent.norm()
        return torch.where(lengths > 0, self.gradients @ self.sent / lengths.clamp(min=1e-300), 0.0)

    def weights(self) -> Tensor:
        """Return the weights [M], none of them negative, whose sum of gradients is nearest to what was sent."""
        if not bool(self.gradients.any()):
            return self.sent.new_zeros(len(self.gradients))
        # the fit in the span of the gradients is the same and has fewer rows; of a thousand gradients their inner
        # products take a tenth of the time of a QR decomposition
        squares, axes = tensor_algebra.eigh(self.gradients @ self.gradients.T)
        kept = squares > LEAST_SQUARE * squares[-1]
        sizes, axes = squares[kept].sqrt(), axes[:, kept]
        wanted = axes.T @ (self.gradients @ self.sent) / sizes
        found, _ = nnls((sizes[:, None] * axes.T).numpy(), wanted.numpy(), maxiter=30 * len(self.gradients))
        return torch.as_tensor(found)

    def unexplained(self, weights: Tensor) -> float:
        """Return the length of what a sum of gradients leaves, relative to what was sent."""
        return float((self.sent - weights @ self.gradients).norm() / self.sent.norm())


def singles_of(simulation: Simulation, exchange: Exchange, inputs: Tensor, targets: Tensor, seed: int = 0) -> Singles:
    """Return the gradients of samples, each as a batch of its own, at the weights before the round.

    Args:
        simulation: of the client, with its defense where that is known; best a ``still`` one, as a batch of one has no
            statistics.
        exchange: what was sent.
        inputs: [M, ...] in the simulation's type.
        targets: [M, ...].
        seed: of the choice of entries.
    """
    shift = {} if simulation.defended is None else simulation.defended.shift
    sent = zip(simulation.names, simulation.observed(exchange), strict=True)
    observed = torch.cat([(one - shift.get(name, 0.0)).flatten() for name, one in sent])
    places = torch.arange(len(observed))
    if len(observed) > MOST_ENTRIES:
        places = stream(seed, "entries").permutation(len(observed))[:MOST_ENTRIES].sort().values
    places = places.to(observed.device)
    rows = []
    for row in range(len(inputs)):
        whole = simulation.share(inputs[row : row + 1], targets[row : row + 1])
        rows.append(torch.cat([one.detach().flatten() for one in whole])[places].double().cpu())
    return Singles(torch.stack(rows), observed[places].double().cpu())
