"""What every text network offers: settings that build a module with token ids or embeddings in and logits out."""

from typing import Protocol

import torch
from torch import nn


class TextArchitecture(Protocol):
    """A plug-in of ``models/text``; a frozen dataclass whose fields are its settings."""

    @property
    def positions(self) -> int:
        """Longest sequence, in tokens with start and end."""
        ...

    def build(self, vocabulary_size: int, num_classes: int) -> nn.Module:
        """Return the network with all parameters zero, float32, in evaluation state."""
        ...

    def initialised(
        self, vocabulary_size: int, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Module:
        """Return the network with the initial weights of ``seed``."""
        ...
