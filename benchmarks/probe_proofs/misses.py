"""Near-misses: clients that are nearly as a proof needs them, drawn from a seed, and whether it falls for one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.algebra.applications import watched
from leaklab.probing.algebra.proofs import Proofs, proofs
from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from probe_proofs.clients import mlp, pictures

EXACT = 60.0
"""Decibels from which what is proven counts as right, as everywhere in this project."""
SIDE = 10


@dataclass(frozen=True)
class Draw:
    """What is drawn for one try."""

    count: int
    size: float
    inputs: Tensor
    targets: Tensor
    client: Client
    draws: torch.Generator

    def normal(self, like: Tensor) -> Tensor:
        """Return normal numbers of a tensor's shape."""
        return torch.randn(like.shape, generator=self.draws, dtype=torch.float64).to(like)


Miss = Callable[[Draw], Case]


def _case(draw: Draw, client: Client, exchange: Exchange | None = None, inputs: Tensor | None = None) -> Case:
    held = draw.inputs if inputs is None else inputs
    return Case(client, exchange or client.round(held, draw.targets[: len(held)]), held, draw.targets[: len(held)])


def _prepared(change: Callable[[Draw, Tensor], Tensor]) -> Miss:
    return lambda draw: _case(draw, replace(draw.client, prepare=lambda values: change(draw, values)))


def _sent(change: Callable[[Draw, str, Tensor], Tensor], only: str | None = None) -> Miss:
    def made(draw: Draw) -> Case:
        sent = draw.client.round(draw.inputs, draw.targets)
        names = list(sent.sent)
        chosen = {only} if only else {names[int(torch.randint(len(names), (1,), generator=draw.draws))]}
        altered = {name: change(draw, name, one) if name in chosen else one for name, one in sent.sent.items()}
        return _case(draw, draw.client, replace(sent, sent=altered))

    return made


def _twin(draw: Draw, told: int | None = None) -> Case:
    first = draw.inputs[:1]
    both = torch.cat([first, first + draw.size * draw.normal(first)])
    draw = replace(draw, inputs=both, targets=draw.targets[:1].repeat(2))
    case = _case(draw, draw.client)
    return case if told is None else replace(case, exchange=replace(case.exchange, facts={"samples": told}))


def _other_weights(draw: Draw) -> Case:
    sent = draw.client.round(draw.inputs, draw.targets)
    before = {name: one + draw.size * draw.normal(one) * one.std() for name, one in sent.before.items()}
    return _case(draw, draw.client, replace(sent, before=before))


def _network(change: Callable[[nn.Sequential], nn.Module]) -> Miss:
    return lambda draw: _case(draw, replace(draw.client, model=change(draw.client.model)))  # type: ignore[arg-type]


def _pooled(draw: Draw) -> Case:
    kind = next(draw.client.model.parameters()).dtype
    network = nn.Sequential(nn.AvgPool2d(2), mlp(SIDE * SIDE // 4)).to(kind)
    return _case(draw, replace(draw.client, model=network))


def _other_optimizer(draw: Draw) -> Case:
    client = replace(draw.client, optimizer=lambda these: torch.optim.SGD(these, 0.1, weight_decay=draw.size))
    return _case(draw, draw.client, client.round(draw.inputs, draw.targets))


def _told_less(draw: Draw) -> Case:
    case = _case(draw, draw.client)
    return replace(case, exchange=replace(case.exchange, facts={"samples": max(1, draw.count - 1)}))


def _two_classes(draw: Draw) -> Case:
    kind = next(draw.client.model.parameters()).dtype
    network = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 2)).to(kind)
    case = _case(replace(draw, targets=draw.targets % 2), replace(draw.client, model=network))
    return replace(case, exchange=replace(case.exchange, facts={"samples": 1}))


MISSES: dict[str, Miss] = {
    "2x2 mean in the network": _pooled,
    "dropout of pixels": _network(lambda body: nn.Sequential(nn.Dropout(0.05), body)),
    "dropout of units": _network(lambda body: nn.Sequential(*body[:3], nn.Dropout(0.2), *body[3:])),
    "samples clipped to a range": _prepared(lambda draw, values: values.clamp(0.02, 0.98)),
    "samples rounded to half precision": _prepared(lambda draw, values: values.half().to(values)),
    "samples rounded to 4 bits": _prepared(lambda draw, values: (values * 15).round() / 15),
    "each sample normalized": _prepared(
        lambda draw, values: (
            (values - values.mean((1, 2, 3), True)) / values.std((1, 2, 3), keepdim=True).clamp(min=1e-3)
        )
    ),
    "samples mixed within the batch": _prepared(lambda draw, values: values + draw.size * values.roll(1, 0)),
    "one row of pixels cut off": _prepared(lambda draw, values: F.pad(values[:, :, 1:], (0, 0, 1, 0))),
    "noise in one tensor": _sent(lambda draw, name, one: one + draw.size * draw.normal(one) * one.std()),
    "one tensor scaled": _sent(lambda draw, name, one: one * (1 + draw.size)),
    "first bias scaled": _sent(lambda draw, name, one: one * (1 + draw.size), "1.bias"),
    "first bias moved": _sent(lambda draw, name, one: one + draw.size * one.std(), "1.bias"),
    "one tensor rounded to half precision": _sent(lambda draw, name, one: one.half().to(one)),
    "one entry of a tensor altered": _sent(
        lambda draw, name, one: torch.where(one == one.max(), one * (1 + 100 * draw.size), one)
    ),
    "two samples nearly the same": _twin,
    "two samples nearly the same, told as one": lambda draw: _twin(draw, 1),
    "two classes and no hidden layer, told as one sample": _two_classes,
    "one sample less told than there are": _told_less,
    "other weights than told": _other_weights,
    "decay that is not told": _other_optimizer,
}


def _draw(number: int) -> Draw:
    draws = torch.Generator().manual_seed(number)  # a try is its number, in whatever order tries run
    count = (1, 2, 4)[int(torch.randint(3, (1,), generator=draws))]
    size = 10 ** (-6 + 4 * float(torch.rand(1, generator=draws)))
    kind = (torch.float64, torch.float32)[int(torch.randint(2, (1,), generator=draws))]
    sends = ("gradient", "delta")[int(torch.randint(2, (1,), generator=draws))]
    first = int(torch.randint(190, (1,), generator=draws))
    inputs, targets = pictures(count, SIDE, first=first)
    client = Client(mlp(SIDE * SIDE).to(kind), sends=sends)  # type: ignore[arg-type]
    return Draw(count, size, inputs.to(kind), targets, client, draws)


@dataclass(frozen=True)
class Try:
    """What came of one near-miss.

    Attributes:
        miss: its name.
        size: of the change, where it has one.
        proven: readings with a certificate, of the input and of layers.
        layers: how many of them are of layers.
        false: certificates that are false.
        worst: of the readings with a certificate, dB; inf for none.
        seconds: of a processor.
    """

    miss: str
    size: float
    proven: int
    layers: int
    false: int
    worst: float
    seconds: float


def tried(number: int) -> Try:
    """Return what comes of the near-miss of a number."""
    name = list(MISSES)[number % len(MISSES)]
    draw = _draw(number)
    case = MISSES[name](draw)
    start = time.process_time()
    found = proofs(replace(case, seed=number))
    seconds = round(time.process_time() - start, 2)
    close = [closeness(case, found, place) for place, one in enumerate(found.readings) if one.proven]
    layers = sum(one.proven and one.of != "input" for one in found.readings)
    worst = min(close, default=float("inf"))
    return Try(name, draw.size, len(close), layers, sum(one < EXACT for one in close), worst, seconds)


def closeness(case: Case, found: Proofs, place: int) -> float:
    """Return the PSNR of a reading to the nearest of what it says that it is, in the range of that, dB up to 300."""
    one = found.readings[place]
    assert case.inputs is not None
    truth = case.inputs if one.of == "input" else _seen(case, one.of)
    truth = truth.reshape(len(case.inputs), -1).double()
    error = (truth - one.values.flatten().double()).square().mean(1).min()
    peak = float(truth.max() - truth.min())
    return float(-10 * (error / max(peak, 1e-12) ** 2).clamp(min=1e-30).log10())


def _seen(case: Case, layer: str) -> Tensor:
    """Return what a layer saw of the client's samples, with the draws of its round."""
    client = case.client
    model = client.model if client.mode is None else client.model.train(client.mode == "train")
    with torch.no_grad():
        applied, _ = watched(lambda network: client.output(network, case.inputs), model, seed=client.seed)  # type: ignore[arg-type]
    return next(one for one in applied if one.name.removesuffix(".weight") == layer).given
