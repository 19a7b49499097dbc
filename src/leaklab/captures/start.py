"""What the server sends before the captured round: initial weights, those of a training, or published ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.data.dataset import Dataset, unit_range
from leaklab.data.download import describe_weights, weights_path
from leaklab.federated.checkpoint import CLIENTS, DIVERGED, below, of_server
from leaklab.models.base import Architecture
from leaklab.models.published import with_published
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.base import run_folder
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import PublishedState, TrainedState


@dataclass(frozen=True, eq=False)
class Start:
    """The beginning of the captured round.

    Attributes:
        state: broadcast parameters and running statistics by name.
        clients: what every client of the deal has kept, by name, [N, ...].
        dataset: the private data, with the mean and deviation by which inputs are normalised.
        normalises: whether they are; inputs of untrained networks are not.
        seed: of the clients' random streams.
        round: number of the captured round.
        rounds: of the training that it belongs to.
        diverged: whether that training diverged before, so that its weights are those of no such round.
    """

    state: Mapping[str, Tensor]
    clients: Mapping[str, Tensor]
    dataset: Dataset
    normalises: bool
    seed: int
    round: int = 0
    rounds: int = 1
    diverged: bool = False

    def inputs(self, images: Tensor, spec: CaptureSpec) -> Tensor:
        """Return uint8 images [..., C, H, W] as the model gets them."""
        dtype = getattr(torch, spec.dtype)
        if self.normalises:
            return self.dataset.normalised(images, dtype)
        inputs: Tensor = spec.on_input_range(unit_range(images, dtype))
        return inputs


def start_of(spec: CaptureSpec, dataset: Dataset, trained: Mapping[str, Tensor] | None = None) -> Start:
    """Return where the captured round begins.

    Args:
        spec: of the capture.
        dataset: whose images are private.
        trained: weights of all replicates of the state's training, [R, ...] by name; read where there is one.

    Raises:
        UserError: weights that are missing or belong to another architecture.
    """
    architecture: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
    dtype = getattr(torch, spec.dtype)
    if spec.state is None:
        network = architecture.initialised(dataset.shape, dataset.num_classes, spec.seed, dtype)
        initial = {name: value.detach().clone() for name, value in network.state_dict().items()}
        return Start(initial, {}, dataset, False, spec.seed)
    network = architecture.build(dataset.shape, dataset.num_classes)
    if spec.state.train is not None:
        algorithm = plugins.load("federated/algorithms", spec.algorithm_plugin.name, spec.algorithm_plugin.settings)
        saved = of_server(trained or {})
        wanted = algorithm.server_start(dict(network.state_dict()), stream(spec.state.seed, "server", "start"))
        server = _of_training(spec.state, saved, wanted)
        kept = {name: value[spec.state.replicate] for name, value in below(CLIENTS, trained or {}).items()}
        server, kept = ({name: value.to(dtype) for name, value in part.items()} for part in (server, kept))
        diverged = DIVERGED in (trained or {}) and bool((trained or {})[DIVERGED][spec.state.replicate] >= 0)
        of_state = spec.state.seed, spec.state.round, spec.state.train.rounds
        return Start(server, kept, dataset, True, *of_state, diverged)
    name = spec.state.weights
    published = with_published(network, weights_path(name), describe_weights(name).renamed).state_dict()
    cast = {name: value.detach().to(dtype) for name, value in published.items()}
    return Start(cast, {}, _normalised_as(spec.state, dataset), True, spec.seed)


def _of_training(state: TrainedState, saved: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of one replicate, refusing all that is not exactly those that the server would hold."""
    shapes = {name: value.shape for name, value in wanted.items()}
    found = {name: value.shape[1:] for name, value in saved.items()}
    if shapes != found:
        other = next(name for name in [*wanted, *saved] if shapes.get(name) != found.get(name))
        file = run_folder(state.train) / "weights.safetensors"
        raise UserError(
            f"{file} holds the weights of another network: '{other}' is {_shape(found.get(other))}, not "
            f"{_shape(shapes.get(other))}: take the state of a training with this model and images of this shape"
        )
    return {name: saved[name][state.replicate].clone() for name in wanted}


def _shape(shape: torch.Size | None) -> str:
    return "absent" if shape is None else "x".join(str(side) for side in shape) or "a number"


def _normalised_as(state: PublishedState, dataset: Dataset) -> Dataset:
    weights = describe_weights(state.weights)
    if len(weights.mean) != dataset.shape[0]:
        raise UserError(
            f"weights '{state.weights}' take images of {len(weights.mean)} channels, data set '{dataset.name}' has "
            f"{dataset.shape[0]}: choose another data set, or state their mean and std in config/weights.yaml"
        )
    return replace(dataset, mean=torch.tensor(weights.mean), std=torch.tensor(weights.std))


# The rate that the server prescribes in the captured round, from the spec alone.


def round_factor(spec: CaptureSpec) -> float:
    """Return the factor of the schedule on the rate in the captured round.

    Raises:
        UserError: there is nothing left of it.
    """
    schedule = plugins.load("federated/schedules", spec.schedule.name, spec.schedule.settings)
    state = spec.state
    index, rounds = (state.round, state.train.rounds) if state and state.train is not None else (0, 1)
    factor: float = schedule.factor(index, rounds)
    if not factor > 0:
        raise UserError(
            f"schedule '{spec.schedule.name}' ends with round {rounds}, and nothing moves after it: "
            "capture an earlier state"
        )
    return factor


def assumed_rate(spec: CaptureSpec) -> float:
    """Return the sum of the rates of all nominal steps, by which the server turns a delta into a gradient.

    Raises:
        UserError: the schedule has ended.
    """
    return spec.rate * round_factor(spec) * sum(spec.step_factors(spec.local_steps))
