"""No augmentation."""

from dataclasses import dataclass

from torch import Tensor

from leaklab.records.streams import Stream


@dataclass(frozen=True)
class NoAugmentation:
    """Images as they are."""

    def apply(self, images: Tensor, draws: Stream) -> Tensor:
        """Return ``images``."""
        return images


PLUGIN = NoAugmentation
