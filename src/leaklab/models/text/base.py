"""What every text network offers: settings that build a module with token ids or embeddings in and logits out."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call


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


# A text network as a function of embeddings: what a token id cannot be, differentiated.

WORD_TABLE = "bert.embeddings.word_embeddings.weight"
"""Name of the table that turns token ids into embeddings; the only parameter that embeddings by-pass."""
POSITION_TABLE = "bert.embeddings.position_embeddings.weight"


def embeddings_of(network: nn.Module, ids: Tensor) -> Tensor:
    """Return the rows of the word table for ``ids`` [N, L]: [N, L, d], before positions are added."""
    return network.get_parameter(WORD_TABLE)[ids]


def logits_of(
    network: nn.Module, embeddings: Tensor, mask: Tensor | None = None, parameters: Mapping[str, Tensor] | None = None
) -> Tensor:
    """Return the logits for token embeddings.

    Args:
        network: of ``bert_classifier``.
        embeddings: [N, L, d], in place of token ids; positions and layer normalisation are the network's business.
        mask: [N, L], 1 for tokens and 0 for padding; None for tokens only.
        parameters: values that take the place of the network's own, by name; the others stay.

    Returns:
        [N, K].
    """
    given = {"inputs_embeds": embeddings, "attention_mask": mask}
    logits: Tensor = functional_call(network, dict(parameters or {}), (), given).logits
    return logits
