"""A small text network and the gradients of sentences, made by plain autograd from token ids."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.text.inversion import SentenceFrame
from leaklab.models.text.base import BertClassifier
from leaklab.records.streams import stream

VOCABULARY, CLASSES, START, END, FIRST_WORD = 40, 2, 2, 3, 4
SETTINGS = {"layers": 2, "width": 16, "heads": 2, "positions": 12, "spread": 0.1}


@pytest.fixture(scope="session")
def network():
    return BertClassifier(**SETTINGS).initialised(VOCABULARY, CLASSES, seed=3, dtype=torch.float64)


@pytest.fixture(scope="session")
def sentence():
    """Make ids of a sentence [L] with start and end; words repeat."""

    def draw(number, length=8, words=VOCABULARY):
        middle = stream(number, "words").integers(FIRST_WORD, words, length - 2)
        return torch.cat([torch.tensor([START]), middle, torch.tensor([END])])

    return draw


@pytest.fixture(scope="session")
def observe(network):
    """Return the gradients of sentences of any lengths, by name, [T, ...]; each times its factor."""

    def make(sentences, labels, factors=None, victim=None):
        victim = network if victim is None else victim
        rows = []
        for row, (ids, label) in enumerate(zip(sentences, labels, strict=True)):
            loss = F.cross_entropy(victim(input_ids=ids[None]).logits, torch.tensor([label]))
            gradients = torch.autograd.grad(loss, list(victim.parameters()))
            rows.append([g * (1.0 if factors is None else factors[row]) for g in gradients])
        names = [name for name, _ in victim.named_parameters()]
        return dict(zip(names, (torch.stack(column) for column in zip(*rows, strict=True)), strict=True))

    return make


@pytest.fixture(scope="session")
def frame_of():
    return lambda ids: SentenceFrame(len(ids), START, END)
