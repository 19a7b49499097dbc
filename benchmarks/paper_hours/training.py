"""One client step of a training: the clients' own code of a round, on tensors without numbers."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from speed.compiler import without_compiler
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.batches import Batch
from leaklab.federated.client_work import ClientWork
from leaklab.federated.forms.network import GPU_CHUNK, Backbone, trainable
from leaklab.federated.forms.one_by_one import OneByOne
from leaklab.models.base import Architecture
from leaklab.planning.resources import CLIENTS
from leaklab.records import plugins
from leaklab.records.record import Component, canonical_json
from leaklab.records.streams import stream
from leaklab.specs.training import TrainSpec
from paper_hours.counting import Count, counted, without_numbers
from paper_hours.shapes import classes_of, shape_of

GPU = torch.device("cuda")
Setting = tuple[nn.Sequential, tuple[int, int, int], dict[str, Tensor], dict[str, Tensor]]
_STARTED: dict[tuple[str, ...], Any] = {}


@dataclass(frozen=True)
class Round:
    """A client's round as it is counted.

    Attributes:
        work: what clients do.
        server: what they receive, by name, without the axis of models.
        client: what each keeps, likewise.
        shape: of one input of the network.
    """

    work: ClientWork
    server: Mapping[str, Tensor]
    client: Mapping[str, Tensor]
    shape: tuple[int, ...]

    def counted(self, spec: TrainSpec, models: int) -> Count:
        """Return what so many models ask for in a round of the work's steps."""
        dtype = getattr(torch, spec.dtype)
        size = spec.batch_size, *self.shape
        masks = {
            name: torch.rand(models, size[0], *site.shape, dtype=dtype)
            for name, site in self.work.network.dropouts.items()
        }
        batch = Batch(torch.rand(models, *size, dtype=dtype), torch.zeros(models, size[0], dtype=torch.long), masks)
        held = [{name: _many(value, models) for name, value in part.items()} for part in (self.server, self.client)]
        contexts = [ClientContext(scaled_rate=0.1, seed=0, client=number) for number in range(models)]

        def work() -> None:
            before = self.work.lifted("receive", *held)
            self.work.train(before, held[1], [batch] * self.work.steps, contexts, [1.0] * models)

        return counted(work)


def together(spec: TrainSpec, alone: bool) -> int:
    """Return how many models take each step side by side on a GPU, as the engine would let them."""
    if alone:
        return 1
    clients = spec.clients_per_round or int(str(spec.partition.settings.get("clients") or CLIENTS))
    return min(GPU_CHUNK, spec.replicates * clients)


@without_compiler()
def step_of(spec: TrainSpec) -> tuple[Count, int]:
    """Return what a client step asks for on average, and how many models share a launch.

    Of a round, the steps are a line, or, as a step of HyperFL's low-rank heads costs more than the one before by the
    same amount, a polynomial of degree 2, which three short rounds determine. What a round asks for besides is spread
    over its steps. A model is the difference of three and two; what all of them share, as launches, is
    divided by their number.
    """
    setting = _setting(spec)
    models = together(spec, isinstance(trainable(*_copied(setting), frozen=setting[2]), OneByOne))
    first, second, third = (_of_one_model(_round(spec, setting, steps), spec, models) for steps in (1, 2, 3))
    grows = _plugin("federated/algorithms", spec.algorithm_plugin).generates_from
    growth, later = (third - second * 2 + first) * bool(grows), spec.local_steps - 1
    whole = first + (second - first) * later + growth * (later * (later - 1) / 2)
    return whole * (1 / spec.local_steps), models


def _of_one_model(each: Round, spec: TrainSpec, models: int) -> Count:
    if models == 1:
        return without_numbers(lambda: each.counted(spec, 1))
    two, three = (without_numbers(partial(each.counted, spec, number)) for number in (2, 3))
    own = three - two
    return own + (two - own * 2) * (1 / models)


def _round(spec: TrainSpec, setting: Setting, steps: int) -> Round:
    server, client = _started(spec, setting)
    model: Architecture = _plugin("models", spec.model)
    work = ClientWork(
        algorithm=_plugin("federated/algorithms", spec.algorithm_plugin),
        network=trainable(*_copied(setting), frozen=setting[2]),
        defense=_plugin("defenses", spec.defense),
        optimizer=_plugin("federated/optimizers", spec.optimizer),
        weight_decay=spec.weight_decay,
        local_steps=steps,
        build=partial(model.build, shape_of(spec.dataset), classes_of(spec.dataset)),
    )
    return Round(work, server, client, setting[1])


def _started(spec: TrainSpec, setting: Setting) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Return what server and client begin with; a hypernetwork's heads are a hundred networks, drawn once for all."""
    algorithm: Algorithm = _plugin("federated/algorithms", spec.algorithm_plugin)
    key = canonical_json(spec.model), spec.dataset, canonical_json(spec.algorithm_plugin), spec.dtype
    if key not in _STARTED:
        draws = stream(0, "server"), stream(0, "client")
        parts = algorithm.server_start(setting[3], draws[0]), algorithm.client_start(setting[3], draws[1])
        _STARTED[key] = tuple({name: value.to("meta") for name, value in part.items()} for part in parts)
    return _STARTED[key]


def _setting(spec: TrainSpec) -> Setting:
    """Return what trains, the shape of an input, what is frozen in it, and what moves.

    What is computed once for all, as the frozen first layers of a backbone, is left out.
    """
    model: Architecture = _plugin("models", spec.model)
    shape, classes, dtype = shape_of(spec.dataset), classes_of(spec.dataset), getattr(torch, spec.dtype)
    network = model.build(shape, classes).to(dtype)
    moving = {name: value for name, value in network.state_dict().items() if not model.frozen(name)}
    if len(moving) == len(network.state_dict()):
        return network, shape, {}, moving
    data: Any = SimpleNamespace(shape=shape, num_classes=classes)
    backbone = Backbone.of(spec.model_copy(update={"backbone": None}), model, data, {}, torch.device("cpu"))
    return backbone.rest, backbone.shape, backbone.within, moving


def _copied(setting: Setting) -> tuple[nn.Sequential, tuple[int, int, int], torch.device]:
    return deepcopy(setting[0]), setting[1], GPU


def _plugin(room: str, part: Component) -> Any:
    return plugins.load(room, part.name, part.settings)


def _many(value: Tensor, models: int) -> Tensor:
    return torch.rand(models, *value.shape, dtype=value.dtype)
