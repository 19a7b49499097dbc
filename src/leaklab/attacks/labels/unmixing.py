"""Head unmixing: the features of every image of a batch, and a free factor, from the gradient of the last layer alone.

B images with features H [B, F] and one-hot labels Y [B, K] go into an affine head (W, b). The mean cross-entropy then
has, up to a factor s on the update, the gradients

    dW = s A^T H      db = s A^T 1      A = (softmax(H W^T + b) - Y) / B

So dW has rank B, and the features lie in the space of its rows: H = M V with V [B, F] from its singular vectors. All
that is missing is the mixing matrix M [B, B], and s. The equations are far more than the unknowns,

    s A(M)^T M = dW V^T      s A(M)^T 1 = db

and are solved by Levenberg-Marquardt. Images with equal labels have nearly the same row in A where predictions hardly
depend on the image: then singular values fall to the size of the rounding, and features are found for the mean of
these images only. The residual says how well a solution explains the update.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import softmax
from torch import Tensor, nn

from leaklab.attacks.labels.head import Counted, Head, counted_at_any_scale, mean_prediction, reading
from leaklab.records import linear_algebra
from leaklab.records.errors import UserError

Array = NDArray[np.float64]

TOLERANCE = 1e-15
"""Of Levenberg-Marquardt, relative: it goes on until rounding stops it."""
EVALUATIONS = 300
"""Largest number of Levenberg-Marquardt's evaluations from one start."""


@dataclass(frozen=True)
class Unmixed:
    """What explains the head's gradient best.

    Attributes:
        features: [B, F] of the images, in the order of the labels.
        scale: factor s on the update.
        residual: root of the mean squared residual, each singular direction of dW, and db, relative to its own size:
            0 for a perfect explanation, 1 for a zero gradient.
    """

    features: Array
    scale: float
    residual: float


def unmix(head: Head, row: int, labels: Array, starts: Array, scale: float, *, free: bool = False) -> Unmixed:
    """Return the features that explain the head's gradient best, of all starts.

    Args:
        head: the last layer and its update.
        row: trial.
        labels: [B] classes, whole numbers, with repetitions.
        starts: public features to start from, [R, B, F], at best of images of these classes.
        scale: factor s on the update.
        free: whether ``scale`` is only where s starts.

    Raises:
        UserError: B is not below the number of classes: then dW has not the rank B.
    """
    system = _System(head, row, labels, None if free else scale)
    return min((system.solved(start, scale) for start in starts), key=lambda found: found.residual)


class _System:
    """The equations of one trial; unknowns are M [B * B] and, where the scale is free, log s."""

    def __init__(self, head: Head, row: int, labels: Array, scale: float | None) -> None:
        weight, bias, weight_gradient, bias_gradient = _arrays(head, row)
        self.batch, classes = len(labels), len(bias)
        if self.batch >= classes:
            raise UserError(f"a head of {classes} classes unmixes fewer than {classes} images, not {self.batch}")
        _, sizes, rows = linear_algebra.svd(weight_gradient)
        self.rows: Array = rows[: self.batch]
        self.scale, self.bias, self.bias_gradient = scale, bias, bias_gradient
        self.head = weight @ self.rows.T
        self.mixed = weight_gradient @ self.rows.T
        # what is left beyond rank B is noise, and a direction below it says nothing
        self.sizes = np.maximum(sizes[: self.batch], max(sizes[self.batch], np.finfo(float).tiny))
        self.bias_size = max(float(np.linalg.norm(bias_gradient)), np.finfo(float).tiny)
        self.labels = np.eye(classes)[labels.astype(int)]

    def solved(self, start: Array, scale: float) -> Unmixed:
        """Return the solution that Levenberg-Marquardt reaches from features [B, F]."""
        first = (start @ self.rows.T).ravel()
        if self.scale is None:
            first = np.append(first, np.log(scale))
        rules = {"xtol": TOLERANCE, "ftol": TOLERANCE, "gtol": TOLERANCE, "max_nfev": EVALUATIONS}
        found = least_squares(self.residuals, first, self.jacobian, method="lm", x_scale="jac", **rules)
        mixing, factor = self.unpacked(found.x)
        residual = float(np.sqrt(2 * found.cost / (self.batch + 1)))
        return Unmixed(mixing @ self.rows, factor, residual)

    def unpacked(self, unknowns: Array) -> tuple[Array, float]:
        """Return M and s."""
        mixing = unknowns[: self.batch**2].reshape(self.batch, self.batch)
        return mixing, float(np.exp(unknowns[-1])) if self.scale is None else self.scale

    def residuals(self, unknowns: Array) -> Array:
        """Return the residuals [K * B + K]."""
        mixing, scale = self.unpacked(unknowns)
        slopes = (softmax(mixing @ self.head.T + self.bias, axis=1) - self.labels) / self.batch
        weights = (scale * slopes.T @ mixing - self.mixed) / self.sizes
        return np.concatenate([weights.ravel(), (scale * slopes.sum(0) - self.bias_gradient) / self.bias_size])

    def jacobian(self, unknowns: Array) -> Array:
        """Return the derivatives of the residuals, [K * B + K, B * B (+ 1)]."""
        mixing, scale = self.unpacked(unknowns)
        shares = softmax(mixing @ self.head.T + self.bias, axis=1)
        slopes = (shares - self.labels) / self.batch
        # derivative of slope [b, k] for M [b, c]
        means = shares @ self.head
        turns = shares[:, :, None] * (self.head[None] - means[:, None]) / self.batch
        by_mixing = np.einsum("bkc,bj->kjbc", turns, mixing) + np.einsum("bk,jc->kjbc", slopes, np.eye(self.batch))
        weights = scale * by_mixing.reshape(*self.mixed.shape, -1) / self.sizes[None, :, None]
        biases = scale * turns.transpose(1, 0, 2).reshape(len(self.bias), -1) / self.bias_size
        jacobian = np.concatenate([weights.reshape(self.mixed.size, -1), biases])
        if self.scale is not None:
            return jacobian
        by_scale = np.append((scale * slopes.T @ mixing / self.sizes).ravel(), scale * slopes.sum(0) / self.bias_size)
        return np.column_stack([jacobian, by_scale])


def _arrays(head: Head, row: int) -> Iterable[Array]:
    """Return the head's weight, bias and their gradients in one trial, in float64."""
    tensors = (head.weight, head.bias, head.weight_update[row], head.bias_update[row])
    return (tensor.double().cpu().numpy() for tensor in tensors)


# Labels and factor of a batch whose update has an unknown factor: counted, then held against the head's gradient.

STARTS = 8
"""Starts of Levenberg-Marquardt for each reading."""
READINGS = 4
"""Readings of a bias gradient that are held against the weight gradient."""
LARGEST_UNMIXED = 16
"""Images whose B x B mixing matrix is still sought within seconds."""
EXPLAINED = 3e-3
"""Residual below which a reading explains the update: several small local steps leave 1e-3, a wrong one 1e-2."""


@dataclass(frozen=True)
class Batch:
    """What the head's gradient says of one update.

    Attributes:
        labels: [B], ascending.
        scale: factor on the update.
        residual: see ``Unmixed``; inf where nothing was unmixed.
    """

    labels: Tensor
    scale: float
    residual: float


class HeadReader:
    """Reads batches off the head's gradient.

    Args:
        network: the victim, which ends with its head.
        head: that layer and its update, T trials.
        images: public ones, or noise, [N, C, H, W] as the victim takes them.
        batch: B.
    """

    def __init__(self, network: nn.Sequential, head: Head, images: Tensor, batch: int) -> None:
        self.head, self.batch = head, batch
        self.prediction = mean_prediction(network, images).double()
        with torch.no_grad():
            features = network[:-1](images).double().cpu().numpy()
        places = np.arange(STARTS * batch) % len(features)
        self.starts: Array = features[places].reshape(STARTS, batch, -1)

    def read(self, row: int) -> Batch:
        """Return labels and factor of a trial."""
        readings = counted_at_any_scale(self.head.bias_update[row].double(), self.prediction, self.batch)[:READINGS]
        for one in readings:
            found = self._held(row, one)
            if found.residual <= EXPLAINED:
                return found
        return Batch(readings[0].labels, readings[0].scale, np.inf)

    def scale_of(self, row: int, labels: Tensor) -> Batch:
        """Return the factor of a trial whose labels [B] are known."""
        counted = reading(labels.sort().values, self.head.bias_update[row].double(), self.prediction)
        found = self._held(row, counted)
        return found if found.residual <= EXPLAINED else Batch(counted.labels, counted.scale, np.inf)

    def _held(self, row: int, counted: Counted) -> Batch:
        """Return the reading with the factor that the weight gradient asks for."""
        if self.batch > min(LARGEST_UNMIXED, len(self.prediction) - 1) or not np.isfinite(counted.scale):
            return Batch(counted.labels, counted.scale, np.inf)
        labels = counted.labels.cpu().numpy()
        found = unmix(self.head, row, labels, self.starts, counted.scale, free=True)
        return Batch(counted.labels, found.scale, found.residual)
