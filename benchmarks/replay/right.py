"""Right descriptions: clients drawn at random, and what they send on the same machine or under other rounding."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from replay.networks import NETWORKS, made

OPTIMIZERS: dict[str, Any] = {
    "descent": None,
    "momentum": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    "Nesterov": partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True),
    "decay": partial(torch.optim.SGD, lr=0.1, weight_decay=1e-3),
    "Adam": partial(torch.optim.Adam, lr=1e-3),
    "AdamW": partial(torch.optim.AdamW, lr=1e-3),
}


def right_case(number: int) -> tuple[Case, dict[str, str]]:
    """Return a case whose description is right, and what was drawn for it.

    Every third client trains in float64 and sends what that gives in float32: another machine's rounding, and more.
    """
    draw = Random(number)
    name = list(NETWORKS)[number % len(NETWORKS)]
    model, images, labels = made(name, 1000 + number)
    dtype, sends = draw.choice([torch.float32, torch.float64]), draw.choice(["delta", "delta", "weights", "gradient"])
    optimizer = draw.choice(list(OPTIMIZERS))
    finer = number % 3 == 0
    if finer:
        dtype = torch.float32
    client = Client(
        model.to(dtype),
        loss=draw.choice([F.cross_entropy, partial(F.cross_entropy, label_smoothing=0.1)]),
        rate=draw.choice([0.5, 0.1, 0.01, 0.001]),
        optimizer=OPTIMIZERS[optimizer],
        steps=1 if sends == "gradient" else draw.choice([1, 2, 4]),
        batch_size=draw.choice([None, 4, 3]),
        accumulate=draw.choice([1, 1, 2]),
        clip=draw.choice([None, None, 0.5]),
        mode=draw.choice(["train", "eval"]),
        precision=None if finer else draw.choice([None, None, torch.bfloat16]),
        sends=sends,
        defense=None if finer else draw.choice([None, None, _rounded]),
        seed=number,
    )
    inputs = images.to(dtype)
    exchange = client.round(inputs, labels)
    if finer:
        # dropout draws other masks in float64
        client = replace(client, mode="eval" if name == "transformer" else client.mode)
        fine = replace(client, model=deepcopy(client.model).double())
        sent = fine.round(inputs.double(), labels).sent
        exchange = replace(exchange, sent={key: value.float() for key, value in sent.items()})
    drawn = {
        "network": name, "optimizer": optimizer, "steps": str(client.steps), "sends": sends,
        "type": str(dtype).removeprefix("torch."), "precision": str(client.precision).removeprefix("torch."),
        "rounding": "another" if finer else "the same",
    }  # fmt: skip
    return Case(client, exchange, inputs, labels), drawn


def _rounded(sent: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.half().to(value.dtype) for name, value in sent.items()}
