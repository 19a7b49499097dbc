"""Labels and factor of a batch whose update has an unknown factor: counted, then held against the head's gradient.

``counts`` reads the labels off the bias gradient at any scale, up to what predictions differ between images, and
sometimes several readings fit nearly as well. ``head_unmixing`` tells them apart by the weight gradient: where one of
them explains it, labels and factor are exact. Equal labels leave too little of it above rounding in float32; then the
best count stands.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from leaklab.attacks.counts import Counted, counted_at_any_scale, mean_prediction, reading
from leaklab.attacks.head import Head
from leaklab.attacks.head_unmixing import Array, unmix

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
        residual: see ``head_unmixing.Unmixed``; inf where nothing was unmixed.
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
