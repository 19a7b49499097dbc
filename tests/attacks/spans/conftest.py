"""Small transformers and the updates of random batches, made by plain autograd from token ids."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from leaklab.models.text.base import BertClassifier
from leaklab.models.text.decoders import Gpt2, Llama, gradients_of
from leaklab.models.text.first_block import FirstBlock, first_block
from leaklab.records.streams import stream

VOCABULARY, FIRST_WORD = 400, 4
SIZE = {"layers": 2, "width": 64, "heads": 4, "positions": 16}
FAMILIES = {"gpt2": Gpt2, "llama": Llama, "bert": BertClassifier}


@dataclass(frozen=True)
class Sent:
    """What a client holds and sends."""

    network: nn.Module
    block: FirstBlock
    ids: Tensor
    update: dict[str, Tensor]

    @property
    def sentences(self):
        return {tuple(token for token in row if token) for row in self.ids.tolist()}

    @property
    def prefixes(self):
        """All distinct prefixes that something comes back to."""
        ends = 1 if hasattr(self.network, "lm_head") else 0
        return {one[: n + 1] for one in self.sentences for n in range(len(one) - ends)}

    def columns(self, part, number=0):
        names = self.block.names.of(part, number)
        return torch.cat([self.update[n].T if self.block.names.output_first else self.update[n] for n in names], 1)


def random_batch(seed, lengths, words=VOCABULARY):
    draws = stream(seed, "sentences")
    rows = [draws.integers(FIRST_WORD, words, length) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.fixture(scope="session")
def sends():
    """Make what a client sends: a family, sentences or their lengths, float64 unless said otherwise."""

    def make(family, ids, seed=0, dtype=torch.float64, **settings):
        ids = ids if isinstance(ids, Tensor) else random_batch(seed, ids)
        network = FAMILIES[family](**SIZE | settings).initialised(VOCABULARY, 2, seed, dtype)
        labels = None if settings.get("loss") == "next-token" else torch.arange(len(ids)) % 2
        return Sent(network, first_block(network), ids, gradients_of(network, ids, labels))

    return make
