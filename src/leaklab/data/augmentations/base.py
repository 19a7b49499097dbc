"""What every way of changing training images offers."""

from typing import Protocol

from torch import Tensor

from leaklab.records.streams import Stream


class Augmentation(Protocol):
    """A random change of normalised images. Its dataclass fields are its settings."""

    def apply(self, images: Tensor, draws: Stream) -> Tensor:
        """Return changed images of the same shape, dtype and device; ``images`` [B, C, H, W] stay as they are.

        Args:
            images: normalised images of one batch of one client.
            draws: source of all random choices; called once a step, so that the draws go on from step to step.
        """
        ...
