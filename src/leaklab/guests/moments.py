"""Moments at which a guest is called, in the child: the images of an arena, its networks, one client."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.data.readers.base import Reader, Samples
from leaklab.data.readers.embedded import Digits, FacePatches, Photographs
from leaklab.defenses.base import loaded
from leaklab.guests import arenas
from leaklab.guests.situation import Situation, moved
from leaklab.guests.texts import Corpus, corpus_of, of_ids
from leaklab.models.base import Architecture
from leaklab.models.text.base import TextArchitecture
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TEXT_MODELS = "models/text"
PARTS = ("public_images", "public_labels", "private_images", "private_labels")
CHOOSING = 2
"""Public images beside those of rehearsals, on which a law is tried."""


@dataclass(frozen=True)
class Labelled:
    """Images and their labels.

    Attributes:
        images: [N, C, H, W] in [0, 1], float64.
        labels: [N].
    """

    images: Tensor
    labels: Tensor


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

    def moment(self, images: Tensor, labels: Tensor, steps: int = 1, rate: float = 1.0) -> Situation:
        """Return the moment of a client with these images, shared out among its local steps in their order."""
        batch, per_step = {"images": images, "labels": labels}, len(labels) // steps
        moment = Situation([], self.weights, batch, self.build, rate, per_step=per_step)
        for step in range(steps):
            own = moment.batch_of(step)
            there = replace(self, weights=moved(self.weights, moment.walked()))
            gradients = [*moment.gradients, there.gradient(own["images"], own["labels"])]
            moment = replace(moment, gradients=gradients)
        return moment

    def starts_affine(self) -> bool:
        """Whether the first layer with weights is affine and has a bias, whose gradients give its input away."""
        layers = (layer for layer in self.build().children() if any(True for _ in layer.parameters()))
        first = next(layers, None)
        return isinstance(first, nn.Linear) and first.bias is not None


@dataclass(frozen=True, eq=False)
class Ground(arenas.Arena):
    """An arena with its images and networks."""

    READERS: ClassVar[Mapping[str, tuple[Callable[[], Reader], Mapping[str, str]]]] = {
        "digits": (Digits, {"table": "sklearn/datasets/data/digits.csv.gz"}),
        "faces": (partial(FacePatches, side=16), {"patches": "skimage/data/lfw_subset.npy"}),
        "photographs": (
            partial(Photographs, side=16),
            {
                "astronaut": "skimage/data/astronaut.png",
                "cat": "skimage/data/chelsea.png",
                "coffee": "skimage/data/coffee.png",
                "temple": "sklearn/datasets/images/china.jpg",
                "flower": "sklearn/datasets/images/flower.jpg",
            },
        ),
    }
    """Name -> reader, and where its files lie in installed packages; the catalog of datasets is no part of a wheel."""

    @cached_property
    def parts(self) -> tuple[Labelled, Labelled]:
        """Public images, and private ones: no attacker has one of the latter.

        Raises:
            UserError: the images are missing, or are none.
        """
        images = self.file.images
        if images is None:
            public, private = (Labelled(*part) for part in zip(self.corpus.ids, self.corpus.labels, strict=True))
        else:
            own = images not in self.READERS
            public, private = _own(self.folder / images) if own else _unit(_read(images))
        if images != "digits":  # their order is one of no class
            order = stream(0, "arena", "public images").permutation(len(public.labels))
            public = Labelled(public.images[order], public.labels[order])
        rehearsed, attacked = (count * self.samples for count in (self.file.rehearsals + CHOOSING, self.file.updates))
        if len(private.labels) < attacked or len(public.labels) < rehearsed:
            raise UserError(
                f"{self.given}: {len(public.labels)} public and {len(private.labels)} private images are too few for "
                f"{self.file.rehearsals} rehearsals and {self.file.updates} updates: lower these, or give more images"
            )
        return public, private

    @cached_property
    def corpus(self) -> Corpus:
        """The sentences.

        Raises:
            UserError: they are missing, or there are none in this arena.
        """
        if self.file.sentences is None:
            raise UserError(f"{self.given}: an arena of images has no sentences")
        return corpus_of(self.file.sentences, self.folder, self.file.length)

    @property
    def public(self) -> Labelled:
        """The images that a server may have as well."""
        return self.parts[0]

    @property
    def private(self) -> Labelled:
        """The images of clients."""
        return self.parts[1]

    @cached_property
    def classes(self) -> int:
        """The number of classes."""
        return int(torch.cat([part.labels for part in self.parts]).max()) + 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.public.images.shape[1:]
        return channels, height, width

    def stage(self, network: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Stage:
        """Return one of its networks with the initial weights of a seed.

        Raises:
            UserError: the network cannot be made for such images.
        """
        return _stage(self, network, dtype, seed)


@cache
def _stage(arena: Ground, network: str, dtype: torch.dtype, seed: int) -> Stage:
    chosen = arena.all_networks()[network]
    if arena.file.sentences:
        return _text_stage(arena, chosen, dtype, seed)
    architecture: Architecture = plugins.load("models", chosen.model, chosen.settings)
    made = architecture.initialised(arena.shape, arena.classes, seed, dtype)
    weights = {name: value.detach().clone() for name, value in made.named_parameters()}
    model = {"name": chosen.model, "settings": chosen.settings}
    return Stage(lambda: architecture.build(arena.shape, arena.classes).to(dtype), weights, model)


def _text_stage(arena: Ground, chosen: arenas.Network, dtype: torch.dtype, seed: int) -> Stage:
    texts: TextArchitecture = plugins.load(TEXT_MODELS, chosen.model, chosen.settings)
    size = len(arena.corpus.vocabulary), arena.classes
    made = texts.initialised(*size, seed, dtype)
    weights = {name: value.detach().clone() for name, value in made.named_parameters()}
    model = {"name": chosen.model, "settings": chosen.settings}
    return Stage(cast("Callable[[], nn.Sequential]", partial(of_ids, texts, *size, dtype)), weights, model)


@cache
def load(given: str = arenas.DEFAULT, name: str = "") -> Ground:
    """Return an arena with its images; see ``arenas.find``.

    Args:
        given: how it was asked for.
        name: that it must have, as it tells content; empty for any.

    Raises:
        UserError: there is none, or it was changed meanwhile.
    """
    found = arenas.find(given)
    if name not in ("", found.name):
        raise UserError(f"{given}, or the data beside it, was changed while it was used: begin again")
    for name, network in found.all_networks().items():
        try:
            plugins.load(TEXT_MODELS if found.file.sentences else "models", network.model, network.settings)
        except UserError as error:
            raise UserError(f"{given}: network {name}: {error}") from None
    return Ground(found.name, found.given, found.folder, found.file)


def tiny() -> Ground:
    """Return the arena that is used where none is named: digits, a multilayer perceptron and a LeNet."""
    return load()


@cache
def _read(images: str) -> Samples:
    """Return images that come with installed packages.

    Raises:
        UserError: a package is not installed as it should be.
    """
    make, files = Ground.READERS[images]
    found = {}
    for role, place in files.items():
        package, _, inside = place.partition("/")
        spec = importlib.util.find_spec(package)
        path = Path(*(spec.submodule_search_locations or [])) / inside if spec else None
        if path is None or not path.is_file():
            raise UserError(f"{package} with {inside} is missing: install leaklab's requirements again")
        found[role] = path
    return make().read(found)


def _unit(samples: Samples) -> tuple[Labelled, Labelled]:
    return (
        _labelled(samples.train_images, samples.train_labels),
        _labelled(samples.test_images, samples.test_labels),
    )


def _labelled(images: Any, labels: Any) -> Labelled:
    return Labelled(torch.from_numpy(images).double() / 255, torch.from_numpy(labels))


def _own(path: Path) -> tuple[Labelled, Labelled]:
    """Return the images of a user's file.

    Raises:
        UserError: it is missing, or does not hold images and labels.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing: images are {', '.join(Ground.READERS)}, or an npz file beside the arena's")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = [archive[part] for part in PARTS]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise UserError(f"{path}: no npz file with {', '.join(PARTS)}: {str(error).splitlines()[0]}") from None
    images, labels = arrays[::2], arrays[1::2]
    fit = all(one.ndim == 4 and one.dtype == np.uint8 and len(one) == len(own) and own.ndim == 1
              for one, own in zip(images, labels, strict=True))  # fmt: skip
    if not fit or images[0].shape[1:] != images[1].shape[1:] or images[0].shape[1] not in (1, 3):
        raise UserError(
            f"{path}: images must be uint8 [N, C, H, W], C 1 or 3 and one size in both parts, with as many labels: "
            f"they are {', '.join(f'{one.dtype} {list(one.shape)}' for one in arrays)}"
        )
    if any(own.dtype.kind not in "iu" or (len(own) and own.min() < 0) for own in labels):
        raise UserError(f"{path}: labels must be whole numbers from 0")
    public, private = (_labelled(one, own.astype(np.int64)) for one, own in zip(images, labels, strict=True))
    return public, private
