"""The kinds of training of a paper: those that differ in what a step does, with the steps that the plan asks for."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from leaklab.calibrate import CLASSES, GRAY, SHAPES, noise
from leaklab.federated.engine import train
from leaklab.planning.resources import cost
from leaklab.records import plugins
from leaklab.records.record import canonical_json
from leaklab.specs.training import TrainSpec

SAMPLES = 600
TESTS = 8
WARM_UP_STEPS = 1


@dataclass(frozen=True)
class Kind:
    """Trainings whose steps are alike.

    Attributes:
        specs: the trainings, at least one.
    """

    specs: tuple[TrainSpec, ...]

    @property
    def clients(self) -> int:
        """Return how many clients take part in a round."""
        spec = self.specs[0]
        return spec.clients_per_round or int(str(spec.partition.settings["clients"]))

    @property
    def steps(self) -> int:
        """Return the client steps of all its trainings; those of a classifier alone are not counted."""
        return sum(cost(spec).steps for spec in self.specs)

    @property
    def further_seeds(self) -> int:
        """Return the client steps that all seeds but the first take."""
        return sum(cost(spec).steps * (len(spec.seeds) - 1) // len(spec.seeds) for spec in self.specs)

    @property
    def flop(self) -> int:
        """Return the operations of matrix products and convolutions of one step, forward and backward."""
        spec = self.specs[0]
        shape = SHAPES.get(spec.dataset, GRAY)
        model = plugins.load("models", spec.model.name, spec.model.settings)
        network = model.initialised(shape, CLASSES, 0).train().to("meta")
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            labels = torch.zeros(spec.batch_size, dtype=torch.long)
            F.cross_entropy(network(torch.zeros(spec.batch_size, *shape)), labels).backward()
        return int(counter.get_total_flops())

    def names(self) -> tuple[str, ...]:
        """Return what it is called: data set, algorithm and defense, clients of a round, batch size."""
        spec = self.specs[0]
        defense = "" if spec.defense.name == "none" else f" with {spec.defense.name}"
        return spec.dataset, f"{spec.algorithm_plugin.name}{defense}", str(self.clients), str(spec.batch_size)

    def seconds_per_step(self) -> float:
        """Train a round on noise of the data set's shape and return the processor time of a client step."""
        self._trained(WARM_UP_STEPS)
        started, steps = time.process_time(), self.specs[0].local_steps
        self._trained(steps)
        return (time.process_time() - started) / (self.clients * steps)

    def _trained(self, steps: int) -> None:
        """Train all clients of a round, and hold the steps against the plan's.

        Raises:
            AssertionError: another number of steps was executed.
        """
        spec = self.specs[0]
        short = {
            "rounds": 1, "local_steps": steps, "until": None, "seeds": spec.seeds[:1], "evaluate": (),
            "evaluate_every": 0, "watch": (), "clients_per_round": None,
        }  # fmt: skip
        held = [torch.arange(SAMPLES) + SAMPLES * client for client in range(self.clients)]
        sweep = train(spec.model_copy(update=short), noise(spec.dataset, SAMPLES * self.clients, TESTS), held)
        own = int(str(spec.algorithm_plugin.settings.get("classifier_steps", 0)))
        assert sweep.client_steps == self.clients * (steps + own), spec


def kinds(specs: Iterable[TrainSpec]) -> list[Kind]:
    """Return trainings by kind, in the order of their first; those on a pretrained backbone are left out."""
    found: dict[str, list[TrainSpec]] = {}
    for spec in specs:
        if spec.backbone is None and spec.until is None:
            found.setdefault(_alike(spec), []).append(spec)
    return [Kind(tuple(own)) for own in found.values()]


def _alike(spec: TrainSpec) -> str:
    parts: Sequence[object] = (
        spec.dataset, canonical_json(spec.model), canonical_json(spec.algorithm_plugin), canonical_json(spec.defense),
        spec.batch_size, spec.local_steps, Kind((spec,)).clients,
    )  # fmt: skip
    return repr(parts)
