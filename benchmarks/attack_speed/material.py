"""What all contestants get, as one file: network, observed gradients, starts, and points to compare their values at."""

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attack_speed.objectives import gradients, objective
from attack_speed.workloads import CLASSES, Workload
from leaklab.models.base import Architecture
from leaklab.models.normalisation import batch_norms
from leaklab.records import plugins
from leaklab.records.files import read_tensors, write_tensors
from leaklab.records.streams import Stream, stream

STATE, GRADIENTS = "state/", "gradients/"
GRAIN, CALIBRATION = 8, 16
NEAR = 0.7
"""Share of the private image in the common points; the rest is noise."""


@dataclass(frozen=True)
class Material:
    """One workload's input.

    Attributes:
        network: the victim in evaluation state.
        gradients: the observed ones, [T, *parameter] in the network's order.
        images: the private images [T, C, H, W] on the [0, 1] scale; only for measuring how close a trial has come.
        labels: [T].
        starts: [starts, T, n], pixels from U(0, 1) and for ``dlg`` label logits from N(0, 1).
        points: [T, n], where the contestants' objectives are compared.
        objective: [T] their values, computed in float64.
    """

    network: nn.Sequential
    gradients: list[Tensor]
    images: Tensor
    labels: Tensor
    starts: Tensor
    points: Tensor
    objective: Tensor

    def observed(self, trial: int) -> list[Tensor]:
        """Return the observed gradient of one trial."""
        return [value[trial] for value in self.gradients]

    def split(self, points: Tensor, trial: int) -> tuple[Tensor, Tensor]:
        """Return the images [1, C, H, W] and labels of one trial's unknowns [n]: logits [1, K] or the class [1]."""
        pixels = self.images[0].numel()
        logits = points[pixels:]
        return points[:pixels].view(1, *self.images.shape[1:]), logits[None] if len(logits) else self.labels[[trial]]

    def double(self) -> "Material":
        """Return the same in float64, with a network of its own."""
        tensors = {name: getattr(self, name).double() for name in ("images", "starts", "points")}
        observed = [value.double() for value in self.gradients]
        return replace(self, network=deepcopy(self.network).double(), gradients=observed, **tensors)

    def save(self, path: Path) -> None:
        """Write the file."""
        state = {STATE + name: value for name, value in self.network.state_dict().items()}
        observed = {f"{GRADIENTS}{number}": value for number, value in enumerate(self.gradients)}
        others = {name: getattr(self, name) for name in ("images", "labels", "starts", "points", "objective")}
        write_tensors(path, state | observed | others)

    @classmethod
    def load(cls, path: Path, workload: Workload) -> "Material":
        """Read the file."""
        tensors = read_tensors(path)
        network = _architecture(workload).build(workload.image_shape, CLASSES)
        state = [name for name in tensors if name.startswith(STATE)]
        network.load_state_dict({name.removeprefix(STATE): tensors.pop(name) for name in state}, strict=True)
        count = sum(name.startswith(GRADIENTS) for name in tensors)
        observed = [tensors.pop(f"{GRADIENTS}{number}") for number in range(count)]
        return cls(network.eval(), observed, **tensors)


def made(workload: Workload) -> Material:
    """Make one workload's input; the same on every call.

    Raises:
        UserError: the project has no such model.
    """
    draws = stream(0, "attack benchmark", workload.name)
    network = _architecture(workload).initialised(workload.image_shape, CLASSES, 0, torch.float64)
    _calibrate(network, pictures(draws, CALIBRATION, workload))
    images, labels = pictures(draws, workload.trials, workload), draws.integers(0, CLASSES, workload.trials)
    # the file is in float32, and the values are those of the numbers in the file
    network = network.float().double()
    images = images.float().double()
    observed = [
        torch.stack(values).float()
        for values in zip(
            *(gradients(network, i[None], k[None]) for i, k in zip(images, labels, strict=True)), strict=True
        )
    ]
    starts = _unknowns(draws, workload, draws.uniform(workload.starts, workload.trials, images[0].numel()))
    noisy = NEAR * images + (1 - NEAR) * draws.uniform(*images.shape)
    points = _unknowns(draws, workload, noisy.flatten(1)[None])[0]
    material = Material(network, observed, images.float(), labels, starts.float(), points.float(), points)
    values = [_value(material, workload, trial) for trial in range(workload.trials)]
    return Material(
        network.float(), observed, images.float(), labels, starts.float(), points.float(), torch.stack(values)
    )


def pictures(draws: Stream, count: int, workload: Workload) -> Tensor:
    """Return smooth colourful images [count, C, H, W] on the [0, 1] scale."""
    channels, height, width = workload.image_shape
    coarse = draws.uniform(count, channels, GRAIN, GRAIN)
    return F.interpolate(coarse, (height, width), mode="bicubic", align_corners=False).clamp(0, 1)


def _unknowns(draws: Stream, workload: Workload, pixels: Tensor) -> Tensor:
    """Return pixels [..., T, n] with what else is unknown: label logits."""
    if workload.attack == "dlg":
        return torch.cat([pixels, draws.normal(*pixels.shape[:-1], CLASSES)], -1)
    return pixels


def _value(material: Material, workload: Workload, trial: int) -> Tensor:
    observed = [value.double() for value in material.observed(trial)]
    images, labels = material.split(material.points[trial].double(), trial)
    return objective(workload.attack, material.network, observed, images, labels).detach()


def _calibrate(network: nn.Sequential, images: Tensor) -> None:
    """Give batch normalisations the statistics of some images: a network without any saturates."""
    layers = batch_norms(network).values()
    if layers:
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.momentum = 1.0
        with torch.no_grad():
            network.train()(images)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    network.eval()


def _architecture(workload: Workload) -> Architecture:
    architecture: Architecture = plugins.load("models", workload.model)
    return architecture
