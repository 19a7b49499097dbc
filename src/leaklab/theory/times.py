"""What a round of an algorithm takes: clients one after another, on images of noise, without tests.

Source: HyperFL, table 4. The mean over rounds after some that are not timed. Hardware differs, so only ratios between
algorithms that were timed on one machine mean something.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from statistics import mean, median, stdev
from typing import Any, ClassVar

import torch
from torch import Tensor

from leaklab.data.dataset import BRIGHTEST, Dataset
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.batches import Batch
from leaklab.federated.engine import train
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.models.base import Architecture, Shape
from leaklab.records import plugins
from leaklab.records.bounds import Count, Flag, Natural
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.traits import CheckTraits
from leaklab.specs.training import OWN_TEST, TrainSpec
from leaklab.theory.base import Clients, Number, Track

# What a defense costs in time: a local step under it, against the same step without defense.

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
        steps: local steps of a round; a defense that is drawn less often as a round goes on costs more in a short one.
        repetitions: rounds that are timed, each with the draws of its own.
        points: of the curve ``elapsed``, and the last one once more as ``seconds``; neither without.
        steps_per_point: steps of all clients between two of its points.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(timed=("step_seconds", "step_ratio", "seconds", "elapsed"))

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
        both = (NONE, self.defense)
        for name in both:
            self._repetition(name, seed, 0)
        rounds = track(range(self.repetitions), self.repetitions, "steps")
        return list(self._numbers([[self._repetition(name, seed, number) for name in both] for number in rounds]))

    def _numbers(self, times: list[list[float]]) -> Iterator[Number]:
        step = partial(_typical, [one[1] / self.steps for one in times])
        yield step("step_seconds")
        yield _typical([one[1] / one[0] for one in times], "step_ratio")
        for place in range(self.points):
            yield step("elapsed", (place + 1) * self.steps_per_point, index=place)
        if self.points:
            yield step("seconds", self.points * self.steps_per_point)

    def _repetition(self, name: str, seed: int, number: int) -> float:
        """Return how long one client's local steps of a round take under a defense [s]."""
        defense: Defense = plugins.load("defenses", name)
        architecture: Architecture = plugins.load("models", self.model)
        shape = (self.channels, self.side, self.side)
        build = partial(architecture.build, shape, self.classes)
        network = architecture.initialised(shape, self.classes, seed, torch.float32)
        state = {key: value.detach()[None] for key, value in network.state_dict().items()}
        draws = stream(seed, "noise images")
        images = draws.uniform(1, self.batch_size, *shape).float()
        batch = Batch(images, torch.arange(self.batch_size)[None] % self.classes, {})
        context = ClientContext(0.01, seed, client=0, round=number)
        form = trainable(build(), shape, training=True)
        start = time.perf_counter()
        local_training(form, state, [batch] * self.steps, [context], defense, build=build)
        return time.perf_counter() - start


def _typical(found: list[float], metric: str, factor: int = 1, index: int | None = None) -> Number:
    """Return the median of what the repetitions found, and their spread, both times ``factor``."""
    spread = factor * stdev(found) if len(found) > 1 else None
    return Number(metric, factor * median(found), index=index, std=spread, n=len(found))


# Clients with images of noise, for checks of what training does, whatever it learns.


def noise_dataset(seed: int, shape: Shape, classes: int, samples: int, tests: int) -> Dataset:
    """Return uniform noise with labels that go round.

    Args:
        seed: of the draws.
        shape: (C, H, W) of an image.
        classes: of the labels.
        samples: images of the training part.
        tests: images of the test part.
    """
    parts: dict[str, Tensor] = {}
    for part, count in (("train", samples), ("test", tests)):
        drawn = stream(seed, "noise", part).uniform(count * prod(shape)).view(count, *shape)
        parts[f"{part}_images"] = (drawn * BRIGHTEST).to(torch.uint8)
        parts[f"{part}_labels"] = torch.arange(count) % classes
    level = torch.full((shape[0],), 0.5)
    return Dataset(
        name="noise",
        num_classes=classes,
        mean=level,
        std=level / 2,
        train_images=parts["train_images"],
        train_labels=parts["train_labels"],
        test_images=parts["test_images"],
        test_labels=parts["test_labels"],
    )


def dealt_in_order(sizes: Sequence[int]) -> list[Tensor]:
    """Return the positions of each client's samples, one client after the other."""
    return list(torch.split(torch.arange(sum(sizes)), list(sizes)))


ONE_TEST = 1


@dataclass(frozen=True)
class RoundTimes:
    """Seconds of a round, and what a client sends in it.

    Attributes:
        algorithm: the plug-in, with its own defaults but for the two settings below.
        defense: of every client, with its own defaults.
        low_rank: of HyperFL: the fast form of its second phase.
        classifier_steps: of algorithms that train the classifier first; 0 leaves it to them.
        model: the network.
        channels: of the images.
        side: their height and width.
        classes: of the labels.
        clients: who all take part.
        samples: of each client.
        batch_size: samples a step.
        local_steps: of a round.
        warm_up: rounds that are not timed.
        rounds: rounds that are.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(timed=("seconds_per_round", "client_step_milliseconds"))

    algorithm: str = "fedavg"
    defense: str = "none"
    low_rank: Flag = True
    classifier_steps: Natural = 0
    model: str = "cnn-leaky"
    channels: Count = 1
    side: Count = 28
    classes: Count = 62
    clients: Count = 20
    samples: Count = 1000
    batch_size: Count = 50
    local_steps: Count = 100
    warm_up: Count = 2
    rounds: Count = 5

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return the numbers; the deal is not looked at.

        ``seconds_per_round`` of wall time; ``client_step_milliseconds`` of processor time by client and optimizer step,
        a classifier's steps included, which a busy machine changes less; ``megabytes_sent``, what one client uploads in
        a round.

        Raises:
            UserError: unknown plug-ins or settings.
        """
        return list(self._numbers(seed, track))

    def _numbers(self, seed: int, track: Track) -> Iterator[Number]:
        wall: list[float] = []
        processor: list[float] = []

        def timing(rounds: Iterable[int], total: int, label: str) -> Iterator[int]:
            for index in track(rounds, total, label):
                wall.append(time.perf_counter())
                processor.append(time.process_time())
                yield index

        sizes = [self.samples] * self.clients
        dataset = noise_dataset(seed, (self.channels, self.side, self.side), self.classes, sum(sizes), ONE_TEST)
        tests = [torch.zeros(ONE_TEST, dtype=torch.int64)] * self.clients
        sweep = train(self._spec(seed), dataset, dealt_in_order(sizes), tests=tests, track=timing)
        # the last round is tested, so it only ends the one before
        times, busy = ([b - a for a, b in pairwise(clock[self.warm_up :])] for clock in (wall, processor))
        steps = sweep.client_steps / self._all_rounds
        yield Number("seconds_per_round", mean(times), std=stdev(times) if len(times) > 1 else None, n=len(times))
        yield Number("client_step_milliseconds", 1e3 * mean(busy) / steps, n=len(busy))
        yield Number("megabytes_sent", self.message_bytes(seed) / 1e6)

    @property
    def _all_rounds(self) -> int:
        return self.warm_up + self.rounds + 1

    def _settings(self) -> dict[str, Any]:
        steps = {"classifier_steps": self.classifier_steps} if self.classifier_steps else {}
        return steps if self.low_rank else {**steps, "low_rank": False}

    def _spec(self, seed: int) -> TrainSpec:
        return TrainSpec.model_validate({
            "dataset": "noise",
            "partition": {"name": "iid", "clients": self.clients, "tests": ONE_TEST},
            "model": self.model,
            "algorithm": {"name": self.algorithm, **self._settings()},
            "defense": self.defense,
            "rates": [[0.02]],
            "rounds": self._all_rounds,
            "local_steps": self.local_steps,
            "batch_size": self.batch_size,
            "optimizer": {"name": "sgd", "momentum": 0.5},
            "weight_decay": 5e-4,
            "seeds": [seed],
            "evaluate": [OWN_TEST],
        })  # fmt: skip

    def message_bytes(self, seed: int) -> int:
        """Return the bytes of the tensors that one client uploads in a round."""
        algorithm = plugins.load("federated/algorithms", self.algorithm, self._settings())
        shape = (self.channels, self.side, self.side)
        network = plugins.load("models", self.model).initialised(shape, self.classes, seed).state_dict()
        server = algorithm.server_start(network, stream(seed, "server", "start"))
        values = algorithm.receive(server, algorithm.client_start(network, stream(seed, "client", 0, "start")))
        sent = algorithm.upload(values, values)
        if any(value.dtype != torch.float32 for value in sent.values()):
            raise UserError(f"algorithm '{self.algorithm}' sends other numbers than float32")
        return sum(value.numel() * value.element_size() for value in sent.values())


PLUGINS = {
    "defense-times": DefenseTimes,
    "round-times": RoundTimes,
}
