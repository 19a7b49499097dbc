"""Multinomial logistic regression: one affine layer. LRP tables 1 and 5, figures 5 and 10."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch import nn

from leaklab.models.base import Architecture, Shape


@dataclass(frozen=True)
class LogisticRegression(Architecture):
    """Pixels to logits, 784-10 on MNIST.

    Attributes:
        initialisation: scheme of ``models/initialisations.py``.
    """

    first_affine: ClassVar[str] = ""

    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return flatten, fc."""
        return {"flatten": nn.Flatten(), "fc": nn.Linear(prod(input_shape), num_classes)}


PLUGIN = LogisticRegression
