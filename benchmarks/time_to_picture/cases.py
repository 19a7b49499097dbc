"""What is attacked: clients of one network each, on images of Fashion-MNIST that no attacker was set up on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pool_peel.cases import FASHION, dataset
from torch import Tensor

from leaklab.captures.capture import capture
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.files import read_tensors, write_tensors
from leaklab.specs.capture import CaptureSpec

UPDATES, HELD_OUT = 12, 2
FIRST_IMAGE, FIRST_HELD_OUT = 200, 400
"""Positions in the test part."""
PUBLIC = "public.safetensors"
OBSERVATION, FACTS, TRUTH = "observation.safetensors", "facts.json", "truth.safetensors"


@dataclass(frozen=True)
class Case:
    """Clients of one kind.

    Attributes:
        name: key on the command line.
        title: how the page calls it.
        seed: of the network's initial weights; that of the held-out clients has 1000 more.
        capture: fields of the capture that differ from a plain client's; at least the model.
        batch: images of an update.
        goal: how many times faster than the best peer ours is meant to be at ``GOAL_LEVEL``, prior counted.
    """

    name: str
    title: str
    seed: int
    capture: Mapping[str, Any] = field(default_factory=dict, hash=False)
    batch: int = 1
    goal: float | None = None

    @property
    def steps(self) -> int:
        """Local steps of a client."""
        return int(self.capture.get("local_steps", 1))

    @property
    def hides_scale(self) -> bool:
        """Whether a defense hides the scale of the update."""
        return "defense" in self.capture


RESNET = {"name": "resnet-small", "blocks": 3}
CASES = (
    Case("mlp-1", "MLP, one image", 1, {"model": "mlp"}, goal=20),
    Case("mlp-8", "MLP, eight images", 2, {"model": "mlp"}, batch=8, goal=20),
    Case("lenet-1", "LeNet, one image", 3, {"model": "dlg-lenet"}, goal=5),
    Case("lenet-4", "LeNet, four images", 4, {"model": "dlg-lenet"}, batch=4, goal=5),
    Case("lenet-lrp", "LeNet under LRP, one image", 5, {"model": "dlg-lenet", "defense": "lrp"}, goal=5),
    Case("lenet-steps", "LeNet, four local steps", 6, {"model": "dlg-lenet", "local_steps": 4, "rate": 0.1}, goal=5),
    Case("cnn-1", "CNN with ReLU and pooling, one image", 7, {"model": "cnn-small"}),
    Case("resnet-1", "ResNet-20 in evaluation state, one image", 8, {"model": RESNET}),
)
GOAL_LEVEL = 25.0


def captured(case: Case, *, held_out: bool = False) -> tuple[Observation, Knowledge, Tensor]:
    """Return what the server sees of all clients, what it knows, and their images [T, B, C, H, W]."""
    clients, first = (HELD_OUT, FIRST_HELD_OUT) if held_out else (UPDATES, FIRST_IMAGE)
    count, seed = clients * case.batch, case.seed + 1000 * held_out
    images = {"count": count, "indexes": list(range(first, first + count))}
    plain = {"dataset": FASHION, "dtype": "float32", "rate": 1.0, "threat_model": "honest-but-curious-with-labels"}
    spec = CaptureSpec.model_validate(
        {**plain, **case.capture, "images": images, "batch_size": case.batch, "seed": seed}
    )
    observation, knowledge, truth = capture(spec, dataset(spec.dataset))
    return observation, knowledge, truth.images


def save_public(path: Path) -> None:
    """Write the images and labels of the training part, as ``fetch_dataset`` leaves them."""
    data = dataset(FASHION)
    write_tensors(path, {"images": data.train_images, "labels": data.train_labels})


def save(folder: Path, observation: Observation, knowledge: Knowledge, images: Tensor) -> None:
    """Write what a worker is given: what the server has, and apart from it what its guesses are held against."""
    folder.mkdir(parents=True, exist_ok=True)
    save_observation(folder / OBSERVATION, folder / FACTS, observation, knowledge)
    write_tensors(folder / TRUTH, {"images": images})


def load(folder: Path) -> tuple[Observation, Knowledge, Tensor]:
    """Read what ``save`` wrote."""
    observation, knowledge = load_observation(folder / OBSERVATION, folder / FACTS)
    return observation, knowledge, read_tensors(folder / TRUTH)["images"]
