"""Which form of a network trains fastest, and what all forms have in common."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import Protocol

import torch
from torch import Tensor, nn

from leaklab.data.dataset import Dataset
from leaklab.data.download import describe_weights
from leaklab.data.photographs import Images, parts_of
from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.checkpoint import DIVERGED, fingerprint
from leaklab.federated.forms.dense import DenseNetwork, is_dense
from leaklab.federated.forms.lanes import LanesNetwork
from leaklab.federated.forms.one_by_one import OneByOne
from leaklab.federated.forms.plain_cnn import PlainCnn, is_plain_cnn
from leaklab.federated.forms.stacked import StackedNetwork, can_be_stacked
from leaklab.federated.optimizers import Weights
from leaklab.models.base import Architecture, Shape
from leaklab.models.lanes.description import fits_lanes
from leaklab.models.lanes.library import library
from leaklab.models.published import published_state
from leaklab.records.errors import UserError
from leaklab.specs.training import TrainSpec

CPU = torch.device("cpu")

# models per pass: on CPUs more parameters, or the activations of more convolutional models, fall out of the cache
CPU_PARAMETERS, CPU_CONVOLUTIONAL, GPU_CHUNK = 1_000_000, 6, 1024


class TrainableNetwork(Protocol):
    """M models of one architecture; it holds no weights.

    Attributes:
        dropouts: dropout layers by name, whose masks are given from outside.
        buffers: names of running statistics, which are averaged like weights but have no gradient.
    """

    @property
    def dropouts(self) -> Mapping[str, DropoutSite]: ...  # noqa: D102 - see above

    @property
    def buffers(self) -> tuple[str, ...]: ...  # noqa: D102 - see above

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B] for images [G, B, C, H, W]."""
        ...

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses [M] and the gradients by name, [M, ...], of the ``wanted`` parameters; None: of all."""
        ...


def trainable(
    network: nn.Sequential,
    input_shape: Shape,
    device: torch.device = CPU,
    training: bool = True,
    frozen: Mapping[str, Tensor] | None = None,
) -> TrainableNetwork:
    """Return the form that was measured to be fastest on the device.

    Written out for affine layers and, on CPUs, for plain convolutional networks, compiled where there is a compiler;
    stacked for other small networks; else one model at a time.

    Args:
        network: a new one; it may lose its weights.
        input_shape: (C, H, W).
        device: on which it will train.
        training: whether normalization layers use the batch, as in training, or their running statistics.
        frozen: tensors that all models share and that never move, on the device; the form's weights are the others.

    Raises:
        UserError: a network that no form can train.
    """
    if frozen:
        return OneByOne(network, training, frozen)
    if is_dense(network):
        return DenseNetwork(network, input_shape)
    if device.type == "cpu" and fits_lanes(network) and (compiled := library()) is not None:
        return LanesNetwork(network, input_shape, compiled, _without_compiler)
    return _without_compiler(network, input_shape, device, training)


def _without_compiler(
    network: nn.Sequential, input_shape: Shape, device: torch.device = CPU, training: bool = True
) -> TrainableNetwork:
    if device.type == "cpu" and is_plain_cnn(network):
        return PlainCnn(network)
    if can_be_stacked(network):
        return StackedNetwork(network, input_shape)
    return OneByOne(network, training)


def default_chunk(network: nn.Sequential, form: TrainableNetwork, device: torch.device) -> int:
    """Return how many models train together on a device; ``form`` is what ``trainable`` chose for ``network``."""
    if isinstance(form, OneByOne):
        return 1
    if device.type == "cuda":
        return GPU_CHUNK
    fitting = max(1, CPU_PARAMETERS // sum(parameter.numel() for parameter in network.parameters()))
    if isinstance(form, LanesNetwork):  # which works on one model at a time
        return fitting
    return min(fitting, CPU_CONVOLUTIONAL) if any(isinstance(layer, nn.Conv2d) for layer in network) else fitting


# The frozen part of a network: a constant of the sweep, never part of a state, a message or an average.

UNTRAINED_SEED = 0
"""Of a backbone that nobody trained: the same for all seeds of a sweep."""
BATCH = 100
CHANGED = "backbone_checksum_changed"


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network in three parts: a constant function of the images, and what is left with its frozen tensors.

    Attributes:
        constant: frozen tensors by name, on the training device.
        extractor: the first layers, which are constant; without layers where nothing is computed beforehand.
        rest: the layers behind them, as ``Architecture.build`` gives them.
        shape: of one input of ``rest``.
        digest: of ``constant`` at the start.
    """

    constant: Mapping[str, Tensor]
    extractor: nn.Sequential
    rest: nn.Sequential
    shape: Shape
    digest: str

    @classmethod
    def of(
        cls, spec: TrainSpec, model: Architecture, dataset: Dataset, saved: Mapping[str, Tensor], device: torch.device
    ) -> "Backbone":
        """Return the parts of a sweep's network; without a frozen part all of it is ``rest``.

        Args:
            spec: of the sweep.
            model: its model.
            dataset: whose images it takes.
            saved: weights of the training that the spec names, [R, ...] by name; empty without one.
            device: of the training.

        Raises:
            UserError: the model has no frozen part but the spec a backbone, or the backbone is another network's or
                diverged.
        """
        dtype = getattr(torch, spec.dtype)
        whole = model.build(dataset.shape, dataset.num_classes)
        if not any(map(model.frozen, whole.state_dict())):
            if spec.backbone is not None:
                raise UserError(f"model '{spec.model.name}' has no frozen part: leave backbone out, or change model")
            return cls({}, nn.Sequential(), whole, dataset.shape, "")
        whole = model.initialised(dataset.shape, dataset.num_classes, UNTRAINED_SEED, dtype)
        constant = {name: value for name, value in whole.state_dict().items() if model.frozen(name)}
        if spec.backbone is not None:
            given = _given(spec, saved)
            constant = {name: value.to(dtype) for name, value in _fitting(constant, given, spec).items()}
            # the frozen part alone, which _fitting has compared name by name: what is trained keeps its first weights
            whole.load_state_dict(constant, strict=False)
        augmented = spec.augmentation.name != "none"
        cut = 0 if augmented else _constant_layers(whole, model, dataset.shape)
        layers = list(whole.named_children())
        extractor = nn.Sequential(*(layer for _, layer in layers[:cut])).to(device).eval().requires_grad_(False)
        shape, rest = _behind(extractor, layers[cut:], dataset.shape, dtype)
        constant = {name: value.detach().to(device) for name, value in constant.items()}
        return cls(constant, extractor, rest, shape, fingerprint(constant.values()))

    @property
    def within(self) -> dict[str, Tensor]:
        """The frozen tensors of ``rest``, by name."""
        held = self.rest.state_dict()
        return {name: value for name, value in self.constant.items() if name in held}

    @torch.no_grad()
    def features(self, images: Images) -> Images:
        """Return what ``rest`` gets for normalised images [N, C, H, W]: [N, *shape]."""
        if not len(self.extractor):
            return images
        return torch.cat([self.extractor(part) for part in parts_of(images, BATCH)]).view(len(images), *self.shape)

    @property
    def columns(self) -> dict[str, float]:
        """Whether a frozen tensor is another one than at the start, as a column of the table; none where none is."""
        return {CHANGED: float(fingerprint(self.constant.values()) != self.digest)} if self.constant else {}


def normalised_for(spec: TrainSpec, dataset: Dataset) -> Dataset:
    """Return the data set with the mean and deviation that published weights expect, where they have its channels."""
    if spec.backbone is None or spec.backbone.weights is None:
        return dataset
    weights = describe_weights(spec.backbone.weights)
    if len(weights.mean) != dataset.shape[0]:
        return dataset
    return replace(dataset, mean=torch.tensor(weights.mean), std=torch.tensor(weights.std))


def _given(spec: TrainSpec, saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    assert spec.backbone is not None
    if spec.backbone.weights is not None:
        return published_state(spec.backbone.weights)
    if DIVERGED in saved and saved[DIVERGED][0] >= 0:
        done = int(saved[DIVERGED][0])
        raise UserError(f"the backbone's training diverged after {done} rounds: lower its rate, or choose another")
    # the first replicate; what clients keep is no part of a global network
    return {name: value[0] for name, value in saved.items() if "/" not in name}


def _fitting(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor], spec: TrainSpec) -> dict[str, Tensor]:
    """Return the given tensors of the frozen part; the given network may have a head besides, and nothing else.

    Raises:
        UserError: a tensor is missing, is too many or has another shape.
    """
    for name in [*wanted, *given]:
        theirs = tuple(given[name].shape) if name in given else "absent"
        head = name not in wanted and name.partition(".")[0] == "fc"
        if not head and (name not in wanted or theirs != tuple(wanted[name].shape)):
            ours = tuple(wanted[name].shape) if name in wanted else "absent"
            raise UserError(
                f"the backbone does not fit model '{spec.model.name}': '{name}' is {theirs} there and {ours} here: "
                "choose the settings with which it was trained"
            )
    return {name: given[name].detach().clone() for name in wanted}


def _constant_layers(network: nn.Sequential, model: Architecture, shape: Shape) -> int:
    """Return after how many frozen first layers the values are no more than an image has; the most that are."""
    frozen = [
        all(model.frozen(f"{name}.{inner}") for inner in layer.state_dict()) for name, layer in network.named_children()
    ]
    leading = sum(accumulate(frozen, lambda so_far, one: so_far and one))
    values, best = torch.zeros(1, *shape, dtype=next(network.parameters()).dtype), 0
    network.eval()
    with torch.no_grad():
        for place, layer in enumerate(list(network.children())[:leading], 1):
            values = layer(values)
            best = place if values.numel() <= prod(shape) else best
    has_weights = any(layer.state_dict() for layer in list(network.children())[:best])
    return best if has_weights else 0


def _behind(
    extractor: nn.Sequential, layers: list[tuple[str, nn.Module]], shape: Shape, dtype: torch.dtype
) -> tuple[Shape, nn.Sequential]:
    """Return the shape of what leaves the extractor, as an image, and the layers behind it as a network."""
    if not len(extractor):
        return shape, nn.Sequential(OrderedDict(layers))
    device = next(extractor.parameters()).device
    with torch.no_grad():
        sides = tuple(extractor(torch.zeros(1, *shape, dtype=dtype, device=device)).shape[1:])
    if len(sides) == 3:
        return sides, nn.Sequential(OrderedDict(layers))
    again: list[tuple[str, nn.Module]] = [("features", nn.Flatten())]
    again += [("shaped", nn.Unflatten(1, sides))] if len(sides) > 1 else []
    return (prod(sides), 1, 1), nn.Sequential(OrderedDict([*again, *layers]))
