"""What a round of an algorithm takes: clients one after another, on images of noise, without tests.

Source: HyperFL, table 4. The mean over rounds after some that are not timed. Hardware differs, so only ratios between
algorithms that were timed on one machine mean something.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, stdev
from typing import Any, ClassVar

import torch

from leaklab.federated.engine import train
from leaklab.records import plugins
from leaklab.records.bounds import Count, Flag, Natural
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.train_spec import OWN_TEST, TrainSpec
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.noise_clients import dealt_in_order, noise_dataset

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

    timed: ClassVar[tuple[str, ...]] = ("seconds_per_round", "client_step_milliseconds")

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


PLUGIN = RoundTimes
