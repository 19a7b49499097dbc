"""What the machine at hand takes for each kind of work, beside the costs that plans know: ``leaklab calibrate``.

Real specs of the plan, cut short, run on noise of their data sets' shapes; their seconds are compared with the plan's.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import torch

from leaklab.attacks.run import attacked
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.federated.engine import train
from leaklab.planning.devices import FILE, Device, keep_measured, work_of
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.planning.work import GRAY, SHAPES, evaluation_seconds
from leaklab.records.errors import UserError
from leaklab.records.streams import repeat_on_gpu, stream
from leaklab.specs.attack import AttackSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import ImageChoice
from leaklab.specs.training import TrainSpec

DEVICES = ("cpu", "cuda")
CLASSES = 10
CLIENTS, SAMPLES, STEPS = 4, 64, 8
TESTS = BATCH = 8
LOW_RATE = 1e-4
Work = Callable[[int], tuple[float, float]]
"""From an amount of work, rounds or iterations, to the seconds that it took here and those that the plan says."""
LEAST_SECONDS = 1.0
MOST_SECONDS = 20.0
MOST = 4096
TRIES = 3


@dataclass(frozen=True)
class Found:
    """What was measured of one kind of work.

    Attributes:
        work: see ``planning/devices.py::work_of``.
        factor: seconds here as a multiple of the plan's; None where it could not be measured.
        seconds: that the measurement took.
        reason: why there is no factor.
    """

    work: str
    factor: float | None
    seconds: float
    reason: str = ""


def calibrated(jobs: Iterable[Job], kind: str) -> Iterator[str]:
    """Measure a device, keep what was found, and yield a line for each kind of work.

    Args:
        jobs: of a plan.
        kind: ``cpu`` or ``cuda``.

    Raises:
        UserError: there is no such device here, or nothing could be measured.
    """
    name, factors = device_name(kind), {}
    for found in measured(jobs, kind):
        if found.factor is None:
            yield f"{found.work}: not measured: {found.reason}"
            continue
        factors[found.work] = round(found.factor, 4)
        yield f"{found.work}: {found.factor:.3g} times the plan's seconds (measured in {found.seconds:.0f} s)"
        keep_measured(Device(kind, name, factors))  # each at once: what was measured before a kill is kept
    if not factors:
        raise UserError(f"nothing could be measured on {kind}: see above")
    yield f"{len(factors)} kinds of work on {name}: {FILE}, which plans and jobs read"


def measured(jobs: Iterable[Job], device: str) -> Iterator[Found]:
    """Measure one job of each kind of work, the one that costs most of those that run here on noise.

    Args:
        jobs: of a plan.
        device: ``cpu`` or ``cuda``.
    """
    torch.set_num_threads(1)
    repeat_on_gpu(device)  # as in jobs
    kinds: dict[str, dict[Any, Work]] = {}
    for job in sorted(jobs, key=lambda one: -cost(one.spec).seconds):
        work = cut_short(job.spec, device) if cost(job.spec).unit else None
        if work is not None:
            # jobs that differ in what is cut away need not be tried twice
            alike = job.spec.slug(), job.spec.executed_plugins()
            kinds.setdefault(work_of(job.spec), {}).setdefault(alike, work)
    for kind, works in sorted(kinds.items()):
        yield _of_first(kind, list(works.values())[:TRIES])


@singledispatch
def cut_short(spec: Spec, device: str) -> Work | None:
    """Return a job as work that can be cut short; None where it does not run on noise alone."""
    return None


@cut_short.register
def _cut_training(spec: TrainSpec, device: str) -> Work | None:
    return partial(_training, spec, device) if spec.backbone is None else None


@cut_short.register
def _cut_attack(spec: AttackSpec, device: str) -> Work | None:
    return partial(_attack, spec, device) if spec.generator is None else None


def _of_first(kind: str, works: Sequence[Work]) -> Found:
    """Return what was measured of the first work that can be."""
    started, reason = time.perf_counter(), ""
    for work in works:
        try:
            factor = _factor(work)
        except (UserError, ValueError, torch.OutOfMemoryError) as error:
            reason = reason or " ".join(str(error).split())
        else:
            return Found(kind, factor, time.perf_counter() - started)
    return Found(kind, None, time.perf_counter() - started, reason)


def _factor(work: Work) -> float:
    """Return the seconds of work cut short as a multiple of the plan's, after a first run that compiles and warms."""
    seconds, expected = work(1)
    amount = 1
    while seconds * 2 < MOST_SECONDS and (amount == 1 or seconds < LEAST_SECONDS) and amount < MOST:
        amount *= 4
        seconds, expected = work(amount)
    return seconds / expected


def _training(spec: TrainSpec, device: str, rounds: int) -> tuple[float, float]:
    """Return seconds of some rounds of a few clients, and what the plan says of them."""
    clients = min(CLIENTS, spec.clients_per_round or CLIENTS)
    short = {
        "rounds": rounds, "until": None, "local_steps": min(STEPS, spec.local_steps), "seeds": spec.seeds[:1],
        "rates": (spec.rates[0][:1],), "evaluate": (), "evaluate_every": 0, "goal": None, "watch": (),
        "clients_per_round": None,
    }  # fmt: skip
    one = cost(spec).unit
    if one * STEPS > LEAST_SECONDS:  # one step of one client takes long enough
        short |= {"local_steps": 1}
        clients = 1 if len(spec.rates[0]) == 1 else clients
    samples = max(SAMPLES, spec.batch_size)
    held = [torch.arange(samples) + samples * client for client in range(clients)]
    sweep = train(spec.model_copy(update=short), noise(spec.dataset, samples * clients, TESTS), held, device=device)
    return sweep.training_seconds, one * sweep.client_steps


def _attack(spec: AttackSpec, device: str, iterations: int) -> tuple[float, float]:
    """Return seconds of an attack on one update with few iterations, and what the plan says of its evaluations."""
    batch = min(BATCH, spec.capture.batch_size)
    drawn = ImageChoice(count=batch, min_contrast=0.0)  # of noise
    short = {"images": drawn, "batch_size": batch, "draws": 1, "state": None, "rate": LOW_RATE}
    seen = spec.capture.model_copy(update=short)
    observation, knowledge, _ = capture(seen, noise(seen.dataset, SAMPLES, batch))
    cut = spec.told().model_copy(update={"iterations": iterations, "restarts": 1})
    started = time.perf_counter()
    found = attacked(cut, observation, knowledge, device, None)  # its result is on the CPU, so the GPU is done
    one = evaluation_seconds(spec.model_copy(update={"capture": seen}))  # of an update of so few images
    return time.perf_counter() - started, one * max(1, found.evaluations())


def noise(dataset: str, count: int, tests: int) -> Dataset:
    """Return a data set of noise with the shape of a known one, so many images to train and to test."""
    draws = stream(0, "calibration", dataset)
    shape = SHAPES.get(dataset, GRAY)
    tensors: dict[str, Any] = {}
    for part, size in (("train", count), ("test", tests)):
        tensors[f"{part}_images"] = draws.integers(0, 256, size, *shape).to(torch.uint8)
        tensors[f"{part}_labels"] = draws.integers(0, CLASSES, size)
    moments = torch.full((shape[0],), 0.5), torch.full((shape[0],), 0.3)
    return Dataset(dataset, CLASSES, **tensors, mean=moments[0], std=moments[1])


def device_name(device: str) -> str:
    """Return what was measured, as records name it.

    Raises:
        UserError: there is no GPU.
    """
    if device not in DEVICES:
        raise UserError(f"device {device}: choose from {', '.join(DEVICES)}")
    if device == "cuda":
        if not torch.cuda.is_available():
            raise UserError("device cuda: no GPU is to be seen here: run this as a job on a node that has one")
        return str(torch.cuda.get_device_name())
    return platform.processor() or platform.machine()
