"""Softmax regression with an L2 term on a few made-up clients: every constant of the convergence theorem is known."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from leaklab.records.streams import stream

# sample noise beside class centers of standard normal entries
NOISE = 0.5
# a loss whose gradient is g is at most |g|^2 / (2 mu) above its minimum
LARGEST_LOSS_ERROR = 1e-12


@dataclass(frozen=True)
class RidgeSoftmax:
    """The losses L_k(W) = mean of cross-entropies of client k's samples + ridge / 2 |W|^2, k = 1, ..., N.

    Weights are [..., N, d, C], or [..., 1, d, C] where all clients have the same.

    Attributes:
        features: float64, [N, n, d].
        labels: float64, [N, n, C], one-hot.
        ridge: mu, above 0 (twice the lambda of a term lambda |W|^2).
    """

    features: Tensor
    labels: Tensor
    ridge: float

    @property
    def smoothness(self) -> float:
        """Return an L for which every client's loss is L-smooth: a softmax's Hessian is at most 1/2."""
        gram = self.features.mT @ self.features / self.features.shape[1]
        return float(torch.linalg.eigvalsh(gram).max()) / 2 + self.ridge

    def losses(self, weights: Tensor) -> Tensor:
        """Return L_k(W), [..., N]."""
        logits = self.features @ weights
        entropy = (logits.logsumexp(-1) - (logits * self.labels).sum(-1)).mean(-1)
        return entropy + self.ridge / 2 * weights.square().sum((-2, -1))

    def residuals(self, logits: Tensor) -> Tensor:
        """Return softmax minus label of every sample, shape of ``logits``, [..., N, n, C]."""
        return logits.softmax(-1) - self.labels

    def gradients(self, weights: Tensor) -> Tensor:
        """Return the gradients of L_k(W), [..., N, d, C]."""
        return self.mean_gradients(self.residuals(self.features @ weights), weights)

    def mean_gradients(self, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return the gradients from residuals that are known already."""
        return self.features.mT @ residuals / self.features.shape[1] + self.ridge * weights

    def sample_gradients(self, residuals: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Return each client's gradient of one sample, [R, N, d, C].

        Args:
            residuals: [R, N, n, C].
            weights: [R, N, d, C].
            chosen: int64, [R, N], place of the sample.
        """
        clients = torch.arange(len(self.features))
        repeats = torch.arange(len(chosen)).unsqueeze(1)
        own = self.features[clients, chosen].unsqueeze(-1) * residuals[repeats, clients, chosen].unsqueeze(-2)
        return own + self.ridge * weights

    def gradient_squares(self, logits: Tensor, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return the mean square of a random sample's gradient x r' + ridge W, [..., N].

        No gradient is formed: |x r'|^2 = |x|^2 |r|^2, and the inner product of x r' with W is that of r with W' x.
        """
        lengths = self.features.square().sum(-1) * residuals.square().sum(-1)
        crossed = (logits * residuals).sum(-1)
        return (lengths + 2 * self.ridge * crossed).mean(-1) + self.ridge**2 * weights.square().sum((-2, -1))


def made_up(seed: int, clients: int, samples: int, features: int, classes: int, ridge: float) -> RidgeSoftmax:
    """Return N clients that hold two neighboring classes each; the longest feature vector has length 1."""
    draws = stream(seed, "ridge-softmax")
    centers = draws.normal(classes, features)
    places = (torch.arange(clients).unsqueeze(1) + torch.arange(samples) % 2) % classes
    values = centers[places] + NOISE * draws.normal(clients, samples, features)
    values = values / values.square().sum(-1).max().sqrt()
    return RidgeSoftmax(values, torch.nn.functional.one_hot(places, classes).double(), ridge)


def pooled(problem: RidgeSoftmax) -> RidgeSoftmax:
    """Return the problem of one client that holds everyone's samples: its loss is the mean of all L_k."""
    return RidgeSoftmax(problem.features.flatten(0, 1)[None], problem.labels.flatten(0, 1)[None], problem.ridge)


def client(problem: RidgeSoftmax, place: int) -> RidgeSoftmax:
    """Return the problem of one client alone."""
    return RidgeSoftmax(problem.features[[place]], problem.labels[[place]], problem.ridge)


def optimum(problem: RidgeSoftmax) -> tuple[Tensor, float]:
    """Return the weights [d, C] that minimise the only client's loss, and this loss.

    Raises:
        ArithmeticError: the gradient that is left does not prove the loss exact to 1e-12.
    """
    shape = (1, problem.features.shape[-1], problem.labels.shape[-1])

    def value_and_slope(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = torch.as_tensor(point).reshape(shape)
        return float(problem.losses(weights)), problem.gradients(weights).flatten().numpy()

    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30}
    found = minimize(value_and_slope, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    loss, slope = value_and_slope(found.x)
    if slope @ slope / (2 * problem.ridge) > LARGEST_LOSS_ERROR:
        raise ArithmeticError(f"the optimum was not reached: gradient {np.linalg.norm(slope):.1e}")
    return torch.as_tensor(found.x).reshape(shape[1:]), loss
