"""Multilayer perceptron with one hidden layer, 784-64-10 on MNIST. LRP tables 1 and 5."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

from torch import nn

from leaklab.models.base import Architecture, Shape
from leaklab.records.bounds import Count, PartShare
from leaklab.records.traits import ModelTraits


@dataclass(frozen=True)
class MultilayerPerceptron(Architecture):
    """One hidden layer with ReLU and dropout.

    Attributes:
        hidden: width of the hidden layer.
        dropout: probability to drop a unit.
        dropped: which ones: ``hidden``, after the activation, or ``input``, the pixels; LRP's "dropout in the first
            layer" may mean either.
        initialisation: scheme of ``models/published.py``.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(first_affine="hidden", step_microseconds=250.0, weights_mb=0.2)

    hidden: Count = 64
    dropout: PartShare = 0.5
    dropped: Literal["hidden", "input"] = "hidden"
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return flatten, fc1, relu1, dropout1, fc2; dropout1 before fc1 where the input is dropped."""
        dropout = {"dropout1": nn.Dropout(self.dropout)}
        first = {"fc1": nn.Linear(prod(input_shape), self.hidden), "relu1": nn.ReLU()}
        inner = {**dropout, **first} if self.dropped == "input" else {**first, **dropout}
        return {"flatten": nn.Flatten(), **inner, "fc2": nn.Linear(self.hidden, num_classes)}


# Multinomial logistic regression: one affine layer. LRP tables 1 and 5, figures 5 and 10.


@dataclass(frozen=True)
class LogisticRegression(Architecture):
    """Pixels to logits, 784-10 on MNIST.

    Attributes:
        initialisation: scheme of ``models/published.py``.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(first_affine="", step_microseconds=125.0, weights_mb=0.03)

    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return flatten, fc."""
        return {"flatten": nn.Flatten(), "fc": nn.Linear(prod(input_shape), num_classes)}


PLUGINS = {
    "logistic-regression": LogisticRegression,
    "mlp": MultilayerPerceptron,
}
