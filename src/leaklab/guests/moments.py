"""Moments at which a guest is called to see what it does: two networks, handwritten digits, one client."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.data.readers.base import Samples
from leaklab.data.readers.embedded import Digits
from leaklab.defenses.base import loaded
from leaklab.guests.calls import Situation
from leaklab.models.base import Architecture
from leaklab.records import plugins
from leaklab.records.errors import UserError

CLASSES = 10
NETWORKS = {"mlp": ("mlp", {"dropout": 0.0}), "lenet": ("dlg-lenet", {})}
"""Name -> model plug-in and its settings: one that starts with a narrow affine layer, one with sigmoids."""


@dataclass(frozen=True)
class Labelled:
    """Images and their labels.

    Attributes:
        images: [N, 1, 28, 28] in [0, 1], float64.
        labels: [N].
    """

    images: Tensor
    labels: Tensor


@cache
def _read() -> Samples:
    """Return scikit-learn's digits, enlarged.

    Raises:
        UserError: scikit-learn is not installed as it should be.
    """
    spec = importlib.util.find_spec("sklearn")
    table = Path(*(spec.submodule_search_locations or [])) / "datasets/data/digits.csv.gz" if spec else None
    if table is None or not table.is_file():
        raise UserError("scikit-learn with its digits is missing: install leaklab's requirements again")
    return Digits().read({"table": table})


@cache
def digits() -> Labelled:
    """Return the digits that are for training: a server may have them as well.

    Raises:
        UserError: see above.
    """
    return _unit(_read().train_images, _read().train_labels)


@cache
def private_digits() -> Labelled:
    """Return the digits that are for tests: no attacker has one of them.

    Raises:
        UserError: see above.
    """
    return _unit(_read().test_images, _read().test_labels)


def _unit(images: Any, labels: Any) -> Labelled:
    return Labelled(torch.from_numpy(images).double() / 255, torch.from_numpy(labels))


@dataclass(frozen=True)
class Stage:
    """A network with the weights that a server sends.

    Attributes:
        build: gives the network, all weights zero.
        weights: by name.
        model: plug-in and settings by which attackers build it.
    """

    build: Callable[[], nn.Sequential]
    weights: Mapping[str, Tensor]
    model: Mapping[str, Any]

    def gradient(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the gradient of the mean loss of a batch by name; zero where nothing reaches a parameter."""
        network = loaded(self.build, self.weights)
        loss = F.cross_entropy(network(images), labels)
        parameters = list(network.parameters())
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        return dict(zip(self.weights, found, strict=True))

    def moment(self, images: Tensor, labels: Tensor) -> Situation:
        """Return the moment of a client with this batch, one step at rate 1."""
        batch = {"images": images, "labels": labels}
        return Situation([self.gradient(images, labels)], self.weights, batch, self.build)


@cache
def stage(network: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Stage:
    """Return one of ``NETWORKS`` with the initial weights of a seed."""
    name, settings = NETWORKS[network]
    architecture: Architecture = plugins.load("models", name, settings)
    shape = (1, *digits().images.shape[2:])
    made = architecture.initialised(shape, CLASSES, seed, dtype)
    weights = {name: value.detach().clone() for name, value in made.named_parameters()}
    model = {"name": name, "settings": settings}
    return Stage(lambda: architecture.build(shape, CLASSES).to(dtype), weights, model)
