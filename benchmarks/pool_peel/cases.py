"""What is attacked, by whom, and how one client is captured, attacked and scored.

Settings were chosen on images 20 to 31 of the test part of Fashion-MNIST, networks with the seed of their image. The
table is of images 80 to 103, looked at once, at the end. Earlier versions had been seen on images 32 to 79: the first
(three starts, none of which went on from another) read 16 of 32 to 55, the second (that and no flips of single winners)
17 of 56 to 79. What was changed then was chosen on 20 to 31 and on four of 32 to 55 that had not closed.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Attack, Budget, Case, Reconstruction
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.attacks.pool_peel import PoolPeel, PoolPeelSmooth
from leaklab.captures.capture import capture
from leaklab.data.catalog import find_entry, load_catalog
from leaklab.data.dataset import Dataset, unit_range
from leaklab.data.fetch import fetch, mirror_folder
from leaklab.data.prepare import prepare
from leaklab.models.generators.class_gaussian import ClassGaussian, ClassGaussianGenerator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

CHOSEN_ON, SEEN, HELD_OUT = range(20, 32), range(32, 80), range(80, 104)
FASHION, GRAY = "fashion-mnist", "cnn-small"
Row = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """Clients of one kind, an image each.

    Attributes:
        title: how the page calls it.
        images: positions in the test part; the network of each has that seed.
        attackers: names of ``ATTACKERS``.
        capture: fields of the capture that differ from a plain client's.
        batch: images of one update.
    """

    title: str
    images: range
    attackers: tuple[str, ...] = ("pool-peel",)
    capture: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 1


@dataclass(frozen=True)
class Attacker:
    """An attack with its budget, and whether it divides a hidden factor out of what it matches."""

    attack: Attack
    budget: Budget
    profiled: bool = False


ATTACKERS = {
    "pool-peel": Attacker(PoolPeel(), Budget(40, 8)),
    "pool-peel-smooth": Attacker(PoolPeelSmooth(), Budget(40, 8)),
    "annealed-map": Attacker(AnnealedMap(), Budget(150, 1)),
    "annealed-map, profiled": Attacker(AnnealedMap(), Budget(150, 1), profiled=True),
}
FEW = range(80, 86)
WORKLOADS = (
    Workload("no defense", HELD_OUT, ("pool-peel", "annealed-map")),
    Workload("LRP", HELD_OUT, ("pool-peel", "annealed-map, profiled"), {"defense": "lrp"}),
    Workload("rate 0.01, rounded to float32 weights", FEW, capture={"rate": 0.01}),
    Workload("no public images", FEW, ("pool-peel-smooth",)),
    Workload("dropout in training state", FEW, capture={"mode": "train"}),
    Workload("32 and 64 filters, 512 hidden (cnn-mnist)", FEW, capture={"model": "cnn-mnist"}),
    Workload("leaky ReLU (cnn-leaky)", range(80, 81), capture={"model": "cnn-leaky"}),
    Workload("a small ResNet", range(80, 81), capture={"model": "resnet-small"}),
    Workload("two local steps", range(80, 81), capture={"local_steps": 2, "rate": 0.01}),
    Workload("batch of 2", range(80, 81), batch=2),
    Workload("noise of 1e-6", range(80, 81), capture={"defense": {"name": "additive-noise", "sigma": 1e-6}}),
    Workload("CIFAR-10", range(80, 82), capture={"dataset": "cifar10"}),
    Workload("chosen on", CHOSEN_ON),
)


@cache
def dataset(name: str) -> Dataset:
    """Return a data set of the catalog."""
    entry = find_entry(name, load_catalog())
    prepared = prepare(name, entry, fetch(entry, mirror_folder()))
    parts = (prepared.tensors[f"{part}_{kind}"] for part in ("train", "test") for kind in ("images", "labels"))
    moments = (torch.tensor(prepared.card[key]) for key in ("mean", "std"))
    return Dataset(name, prepared.card["num_classes"], *parts, *moments)


@cache
def generator(name: str) -> ClassGaussianGenerator:
    """Return the Gaussians of the training part, which is public; private images are of the test part."""
    data = dataset(name)
    return ClassGaussian().fitted(unit_range(data.train_images), data.train_labels, data.num_classes)


def measured(workload: Workload, attacker: str, image: int) -> Row:
    """Return what one attacker reads of one client: decibels, certificate, closing and seconds, or its refusal."""
    observation, knowledge, truth = captured(workload, image)
    name = str(workload.capture.get("dataset", FASHION))
    chosen = ATTACKERS[attacker]
    distance = profiled_scale if chosen.profiled else None
    prior = generator(name)
    case = Case(observation, knowledge, chosen.budget, partial(stream, 0, "attack"), distance, prior)
    row: Row = {"workload": workload.title, "attacker": attacker, "image": image}
    start = time.process_time()
    try:
        found = chosen.attack.reconstruct(case)
    except UserError as refusal:
        return row | {"refused": str(refusal)}
    seconds = time.process_time() - start
    # the class mean is what an attacker has who reads nothing but the label
    mean = prior.mean[int(found.labels[0, 0])].detach()
    return row | {
        "psnr": psnr(found.images, truth),
        "mean_psnr": psnr(mean, truth),
        **_proof(found),
        "seconds": seconds,
    }


def captured(workload: Workload, image: int) -> tuple[Observation, Knowledge, Tensor]:
    """Return what the server sees of one client, what it knows, and the private image."""
    images = {"count": workload.batch, "indexes": list(range(image, image + workload.batch))}
    fields = {"dataset": FASHION, "model": GRAY, "dtype": "float32", "rate": 1.0, **workload.capture}
    spec = CaptureSpec.model_validate({**fields, "images": images, "batch_size": workload.batch, "seed": image})
    observation, knowledge, truth = capture(spec, dataset(spec.dataset))
    return observation, knowledge, truth.images


def psnr(found: Tensor, truth: Tensor) -> float:
    """Return decibels of an image clipped to [0, 1]."""
    error = (found.double().flatten().clamp(0, 1) - truth.double().flatten()).square().mean()
    return float(-10 * torch.log10(error))


def _proof(found: Reconstruction) -> Row:
    """Return whether the picture is certified, and whether the second stage closed; nothing of who proves nothing."""
    if found.certified is None:
        return {}
    return {"certified": bool(found.certified[0]), "closed": bool(found.candidate_losses.min() < 1)}
