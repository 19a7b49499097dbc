"""Who is attacked: a client of each kind with a handwritten digit, and controls whose updates hold nothing of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.searches.search import searches
from leaklab.probing.yardstick import graded
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from probe_searches import models

Row = dict[str, Any]
SEED = 0
PRIVATE = 20
"""Samples of a data set that are private; all others are public."""


@dataclass(frozen=True)
class Workload:
    """A client.

    Attributes:
        title: how the page calls it.
        build: its model.
        client: what is not a default of ``Client``.
        samples: in its round.
        side: pixels of a picture's side; 0 for a patient's ten measurements.
        channels: of a picture.
        budget: seconds of one processor.
        public: whether the attacker has public samples.
        only: names of the searches that try; None for all.
        control: ``zero`` or ``another``: what is sent is none, or of other samples; empty for what the client sends.
    """

    title: str
    build: Callable[[], nn.Module]
    client: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    side: int = 28
    channels: int = 1
    budget: float = 7.0
    public: bool = True
    control: str = ""
    only: tuple[str, ...] | None = None


def _adam(these: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(these, 0.01)


def _squared(output: Any, targets: Tensor) -> Tensor:
    return F.mse_loss(output[:, 0], targets)


BCE, MSE = (models.one_hot(loss) for loss in (F.binary_cross_entropy_with_logits, F.mse_loss))
WORKLOADS = (
    Workload("MLP", models.mlp),
    Workload("sigmoid CNN", models.cnn),
    Workload("sigmoid CNN, binary cross-entropy", models.cnn, {"loss": BCE}),
    Workload("sigmoid CNN, squared error", models.cnn, {"loss": MSE}),
    Workload("residual, batch norm, eval", models.residual, {"mode": "eval"}),
    Workload("residual, batch norm, train", models.residual),
    Workload("residual, group norm", lambda: models.residual(models.grouped)),
    Workload("two outputs", models.TwoOutputs, {"loss": models.of_both}),
    Workload("tied weights", models.Tied),
    Workload("LoRA, base frozen", models.adapted),
    Workload("LSTM over rows", models.Rows, budget=25.0),
    Workload("transformer (ViT)", models.Transformer, budget=20.0),
    Workload("ResNet-18, 32x32 in colour, eval", models.resnet18, {"mode": "eval"}, side=32, channels=3, budget=60.0,
             only=("residual-peel", "annealed-map")),
    Workload("ReLU CNN", lambda: models.cnn(nn.ReLU)),
    Workload("sigmoid CNN, no public samples", models.cnn, public=False),
    Workload("sigmoid CNN, batch of 4", models.cnn, samples=4, budget=12.0),
    Workload("sigmoid CNN, 3 local steps with momentum", models.cnn, {
        "steps": 3, "optimizer": lambda these: torch.optim.SGD(these, 0.1, momentum=0.9),
    }),
    Workload("sigmoid CNN, Adam", models.cnn, {"optimizer": _adam}),
    Workload("regression, ten measurements", models.regression, {"loss": _squared}, side=0),
    Workload("control: sigmoid CNN, an update of zero", models.cnn, budget=5.0, control="zero"),
    Workload("control: sigmoid CNN, an update of another digit", models.cnn, budget=5.0, control="another"),
    Workload("control: residual, an update of another digit", models.residual, {"mode": "eval"}, budget=5.0,
             control="another"),
    Workload("residual, mean of positions", lambda: models.residual(averaged=True), {"mode": "eval"}),
)  # fmt: skip


@cache
def samples(side: int, channels: int) -> tuple[Tensor, Tensor]:
    """Return all samples and targets in a drawn order: digits enlarged to pictures in [0, 1], or patients."""
    if side == 0:
        inputs, targets = load_diabetes(return_X_y=True)
        every = torch.as_tensor(inputs).float(), torch.as_tensor(targets / 100).float()
    else:
        digits = load_digits()
        small = torch.as_tensor(digits.images / 16).float()[:, None]
        large = F.interpolate(small, side, mode="bilinear", align_corners=False).clamp(0, 1)
        every = large.expand(-1, channels, -1, -1).contiguous(), torch.as_tensor(digits.target)
    order = stream(SEED, "samples").permutation(len(every[0]))
    return every[0][order], every[1][order]


def case_of(workload: Workload) -> Case:
    """Return the exchange of a workload with the private samples."""
    inputs, targets = samples(workload.side, workload.channels)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)  # layers draw their first weights from it alone; it is put back
        client = Client(workload.build(), **workload.client)
    number = workload.samples
    own, wanted = inputs[:number], targets[:number]
    sent = client.round(own, wanted)
    if workload.control == "another":
        sent = client.round(inputs[number : 2 * number], targets[number : 2 * number])
    if workload.control == "zero":
        sent = replace(sent, sent={name: torch.zeros_like(one) for name, one in sent.sent.items()})
    public = (inputs[PRIVATE:], targets[PRIVATE:]) if workload.public else None
    return Case(client, sent, own, wanted, public, SEED)


def measured(workload: Workload) -> list[Row]:
    """Return what each search reads: decibels, those of the guess, what is left unexplained, and seconds."""
    case, common = case_of(workload), {"model": workload.title}
    try:
        found = searches(case, workload.budget, only=workload.only, clock=time.process_time)
    except UserError as refusal:
        return [{**common, "refused": str(refusal)}]
    grades = graded(case, found.readings)
    assert case.targets is not None
    known = found.targets is not None and not found.targets.is_floating_point()
    labels = None
    if known and found.targets is not None:
        labels = f"{_shared(found.targets, case.targets)} of {len(case.targets)}"
    return [
        {
            **common, "attacker": tried.by, "db": sum(own.scores) / len(own.scores),
            "guess": sum(grades.guesses) / len(own.scores), "gain": own.gain.mean, "read": sum(own.read),
            "samples": len(own.scores), "labels": labels, "unexplained": tried.error,
            "evaluations": tried.evaluations, "seconds": tried.seconds, "complete": tried.complete,
        }
        for tried, own in zip(found.tried, grades.attackers, strict=True)
    ]  # fmt: skip


def _shared(found: Tensor, truth: Tensor) -> int:
    """Return how many labels two batches share, whatever their order."""
    return sum(min(int((found == label).sum()), int((truth == label).sum())) for label in truth.unique())
