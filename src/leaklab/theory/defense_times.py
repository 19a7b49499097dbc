"""What a defense costs in time: a local step under it, against the same step without defense.

A client trains alone on batches of noise; the median over the repetitions counts, after one round that is not timed.
The undefended client is timed right before each repetition, so that a slow moment of the machine slows both. For a
curve against time, ``elapsed`` is what ``steps_per_point`` such steps take, times the number of the point from 1.

Source: time of local training in OUTPOST, figure 3.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median, stdev
from typing import ClassVar

import torch

from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.batches import Batch
from leaklab.federated.local import local_training
from leaklab.federated.network import trainable
from leaklab.models.base import Architecture
from leaklab.records import plugins
from leaklab.records.bounds import Count, Natural
from leaklab.records.streams import stream
from leaklab.theory.base import Clients, Number, Track

NONE = "none"


@dataclass(frozen=True)
class DefenseTimes:
    """The times of a step with and without a defense, and their ratio.

    Attributes:
        defense: the plug-in, with its own defaults: shares and strengths hardly change the time.
        model: the network.
        channels: of the images.
        side: their height and width.
        classes: of the labels.
        batch_size: samples a step.
        steps: local steps of a repetition.
        repetitions: how many.
        points: of the curve ``elapsed``, and the last one once more as ``seconds``; neither without.
        steps_per_point: steps of all clients between two of its points.
    """

    timed: ClassVar[tuple[str, ...]] = ("step_seconds", "step_ratio", "seconds", "elapsed")

    defense: str = NONE
    model: str = "dlg-lenet"
    channels: Count = 1
    side: Count = 28
    classes: Count = 10
    batch_size: Count = 32
    steps: Count = 5
    repetitions: Count = 5
    points: Natural = 0
    steps_per_point: Count = 1

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return the numbers; the deal is not looked at."""
        repetition = partial(self._repetition, seed=seed)
        both = (NONE, self.defense)
        for name in both:
            repetition(name)
        times = [[repetition(name) for name in both] for _ in track(range(self.repetitions), self.repetitions, "steps")]
        return list(self._numbers(times))

    def _numbers(self, times: list[list[float]]) -> Iterator[Number]:
        step = partial(_typical, [one[1] / self.steps for one in times])
        yield step("step_seconds")
        yield _typical([one[1] / one[0] for one in times], "step_ratio")
        for place in range(self.points):
            yield step("elapsed", (place + 1) * self.steps_per_point, index=place)
        if self.points:
            yield step("seconds", self.points * self.steps_per_point)

    def _repetition(self, name: str, seed: int) -> float:
        """Return how long one client's local steps take under a defense [s]."""
        defense: Defense = plugins.load("defenses", name)
        architecture: Architecture = plugins.load("models", self.model)
        shape = (self.channels, self.side, self.side)
        build = partial(architecture.build, shape, self.classes)
        network = architecture.initialised(shape, self.classes, seed, torch.float32)
        state = {key: value.detach()[None] for key, value in network.state_dict().items()}
        draws = stream(seed, "noise images")
        images = draws.uniform(1, self.batch_size, *shape).float()
        batch = Batch(images, torch.arange(self.batch_size)[None] % self.classes, {})
        form, context = trainable(build(), shape, training=True), ClientContext(0.01, seed, 0)
        start = time.perf_counter()
        local_training(form, state, [batch] * self.steps, [context], defense, build=build)
        return time.perf_counter() - start


def _typical(found: list[float], metric: str, factor: int = 1, index: int | None = None) -> Number:
    """Return the median of what the repetitions found, and their spread, both times ``factor``."""
    spread = factor * stdev(found) if len(found) > 1 else None
    return Number(metric, factor * median(found), index=index, std=spread, n=len(found))


PLUGIN = DefenseTimes
