"""One point: a job in a process of its own, its processor seconds and the most memory that it held."""

import json
import os
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, singledispatch
from math import prod
from typing import Any

import torch
from speed.compiler import without_compiler
from torch.nn import functional as F

from leaklab.attacks.reconstructions import chunks, joined
from leaklab.attacks.run import attacked
from leaklab.calibrate import noise
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset, unit_range
from leaklab.federated.engine import train
from leaklab.models.generators.base import Generator
from leaklab.planning.work import GRAY
from leaklab.records import plugins
from leaklab.specs.attack import AttackSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

MIB = 2**20
REAL = "digits"
PUBLIC = 500
TESTS = 100
CLASSES = 10
ERROR = "error"
LEAST_IMAGES = 8


@dataclass(frozen=True)
class Measured:
    """What a point took.

    Attributes:
        cpu_seconds: of the job's work, user and system, its imports aside.
        peak_mib: the most memory that its process held, libraries included.
        parameters: of the network.
        units: client steps of a training, evaluations of a search; 0 for others.
    """

    cpu_seconds: float
    peak_mib: float
    parameters: int
    units: int


def measured(spec: Spec) -> Measured:
    """Return what a job takes in a fork of this process, which has imported what it needs.

    Raises:
        RuntimeError: it failed; the message is that of its process.
    """
    return Measured(**in_a_fork(lambda: asdict(_here(spec))))


def in_a_fork(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a function returns in a fork of this process, by way of JSON.

    Raises:
        RuntimeError: it failed; the message is that of its process.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            with without_compiler():  # the plan knows no compiled steps yet
                report = function()
        except BaseException:  # noqa: BLE001  # a fork never goes on with the work of its parent
            report = {ERROR: traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(report, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(text or json.dumps({ERROR: "the process was killed"}))
    if ERROR in found:
        raise RuntimeError(found[ERROR])
    return found


def _here(spec: Spec) -> Measured:
    parameters = parameters_of(spec)
    torch.set_num_threads(1)
    began, units = done(spec)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    return Measured(spent, peak, parameters, units)


@singledispatch
def done(spec: Spec) -> tuple[float, int]:
    """Do a job; return the processor second at which its own work began, and its units."""
    raise TypeError(f"{spec.stage} is not measured")


@done.register
def _train(spec: TrainSpec) -> tuple[float, int]:
    clients = int(spec.partition.settings["clients"])
    each = max(LEAST_IMAGES, spec.batch_size)
    count = min(60_000, each * clients)
    held = [(torch.arange(each) + each * client) % count for client in range(clients)]
    dataset = images_of(spec.dataset, count, TESTS)
    began = time.process_time()
    return began, train(spec, dataset, held).client_steps


@done.register
def _capture(spec: CaptureSpec) -> tuple[float, int]:
    dataset, deal = _private(spec)
    began = time.process_time()
    capture(spec, dataset, deal)
    return began, 0


@done.register
def _attack(spec: AttackSpec) -> tuple[float, int]:
    dataset, deal = _private(spec.capture)
    observation, knowledge, _ = capture(spec.capture, dataset, deal)
    prior = _prior(spec.generator.model.name, spec.generator.dataset) if spec.generator else None
    began = time.process_time()
    told = spec.told()
    parts = [
        attacked(told, observation.select(rows), knowledge, "cpu", prior) for rows in chunks(len(observation.trials))
    ]
    return began, joined(parts).evaluations()


def _private(spec: CaptureSpec) -> tuple[Any, list[torch.Tensor]]:
    dealt = spec.images.partition
    clients = int(dealt.settings["clients"]) if dealt else 0
    each = max(LEAST_IMAGES, spec.batch_size)
    deal = [torch.arange(each) + each * client for client in range(clients)]
    return images_of(spec.dataset, max(LEAST_IMAGES, each * clients), max(TESTS, spec.image_count)), deal


def images_of(dataset: str, count: int, tests: int) -> Dataset:
    """Return noise of the shape of a data set; real images of the digits that come with scikit-learn."""
    if dataset != REAL:
        return noise(dataset, count, tests)
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = torch.tensor(loaded.images / 16)[:, None]
    images = (255 * F.interpolate(images, GRAY[1:], mode="bilinear")).round().to(torch.uint8)
    labels, whole = torch.tensor(loaded.target), torch.arange(count) % (len(images) - tests)
    parts = images[tests:][whole], labels[tests:][whole], images[:tests], labels[:tests]
    return Dataset(dataset, CLASSES, *parts, torch.tensor([0.3]), torch.tensor([0.3]))


@cache
def _prior(name: str, dataset: str) -> Generator:
    """Return a prior fitted to public images."""
    public = images_of(dataset, PUBLIC, TESTS)
    generator: Generator = plugins.load("models/generators", name).fitted(
        unit_range(public.part("train")[0]), public.train_labels, CLASSES
    )
    return generator.requires_grad_(requires_grad=False)


def parameters_of(spec: Any) -> int:
    """Return how many numbers the weights of a job's network are."""
    model = spec.capture.model if isinstance(spec, AttackSpec) else spec.model
    with torch.device("meta"):
        network = plugins.load("models", model.name, model.settings).build(GRAY, CLASSES)
    return sum(prod(one.shape) for one in network.parameters())
