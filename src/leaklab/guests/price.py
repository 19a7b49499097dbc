"""What a guest's defense costs: accuracy of a short training, milliseconds and bytes of a step.

Four clients train one network of the arena on its public images, one step a round, with the defense and without, from
the same first weights and on the same batches; accuracy is that on the private images. The server knows the defense: it
divides what it gets by the share of the gradient in it, as a sign or a factor would cost nothing but the rate. Beside
it stands the deviation of plain noise that costs as much.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, log, sqrt
from statistics import fmean, median

import torch
from torch import Tensor

from leaklab.defenses.base import Defense, loaded
from leaklab.guests.calls import Subject, sent
from leaklab.guests.exposure import Exposure
from leaklab.guests.laboratory import Update, times
from leaklab.guests.moments import Stage
from leaklab.guests.networks import stage_of
from leaklab.guests.schema import Price
from leaklab.guests.situation import Situation
from leaklab.metrics.gains import half_width, rounded
from leaklab.records.streams import stream

PAIRS, CLIENTS, BATCH, ROUNDS, RATE = 6, 4, 16, 60, 0.1
SIGMAS = tuple(10 ** (place / 2 - 1) for place in range(6))
"""Deviations of noise that are tried."""
SEEN = 0.02
"""Cosine of update and gradient from which on the server can tell what share of the gradient it got."""
TIMED = 20

Send = Callable[[int, Situation], Update]


def priced(own: Exposure) -> Price:
    """Return what a defense costs on a network of an arena; the seed is of weights, batches and draws."""
    plain = [_accuracy(own, _plain(own, pair), pair, _as_it_is) for pair in range(PAIRS)]
    send = _sender(own.subject, _factor(own))
    defended = [_accuracy(own, _first(own, pair), pair, send()) for pair in range(PAIRS)]
    lost = [before - after for before, after in zip(plain, defended, strict=True)]
    mean, half = fmean(lost), half_width(lost)
    noise = _noise_of(mean, fmean(plain), own) if mean - half > 0 else None
    spent, gradient = _milliseconds(own)
    sizes = _bytes(own)
    return Price(
        pairs=PAIRS, rounds=ROUNDS, clients=CLIENTS, without=rounded(fmean(plain)), accuracy=rounded(fmean(defended)),
        lost=rounded(mean), low=rounded(mean - half), high=rounded(mean + half), milliseconds=rounded(spent),
        gradient_milliseconds=rounded(gradient), bytes=sizes[0], bytes_without=sizes[1],
        noise=None if noise is None else float(f"{noise:.3g}"),
    )  # fmt: skip


def _as_it_is(client: int, moment: Situation) -> Update:
    return dict(moment.gradients[0])


def _sender(subject: Subject, factor: float) -> Callable[[], Send]:
    """Return what makes new clients, and what these send times a factor."""

    def clients() -> Send:
        made: dict[int, Defense] = {client: subject.new() for client in range(CLIENTS)}
        return lambda client, moment: times(sent(subject, made[client], moment), factor)

    return clients


def _moments(own: Exposure, pair: int, at: int, now: Stage) -> list[Situation]:
    """Return the moments of the clients of a round."""
    public, found = own.arena.public, []
    parts = torch.arange(len(public.labels)).chunk(CLIENTS)
    for client in range(CLIENTS):
        order = stream(own.seed, "price", pair, client, at).permutation(len(parts[client]))[:BATCH]
        rows = parts[client][order]
        moment = now.moment(public.images[rows], public.labels[rows])
        found.append(replace(moment, seed=own.seed, client=client, round=at, draw=pair))
    return found


def _plain(own: Exposure, pair: int) -> Stage:
    """Return the network with its first weights."""
    return own.arena.stage(own.network, seed=1000 * (own.seed + 1) + pair)


def _first(own: Exposure, pair: int) -> Stage:
    """Return the same; that of a guest who changes it."""
    return stage_of(own.subject, own.arena, own.network, seed=1000 * (own.seed + 1) + pair)


def _accuracy(own: Exposure, first: Stage, pair: int, send: Send, sigma: float = 0.0) -> float:
    """Return the accuracy in percent of one training; ``sigma`` of noise that each client adds besides."""
    now = first
    for at in range(ROUNDS):
        updates = [send(client, moment) for client, moment in enumerate(_moments(own, pair, at, now))]
        weights = {name: _stepped(name, value, updates) for name, value in now.weights.items()}
        if sigma:  # the mean of the clients' noise is drawn once
            draws = stream(own.seed, "price noise", pair, at)
            deviation = RATE * sigma / sqrt(CLIENTS)
            weights = {name: value + deviation * draws.normal(*value.shape) for name, value in weights.items()}
        now = replace(now, weights=weights)
    tests, network = own.arena.private, loaded(now.build, now.weights)
    with torch.no_grad():
        found = network(tests.images).argmax(1)
    return 100 * float((found == tests.labels).double().mean())


def _stepped(name: str, value: Tensor, updates: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """Return weights after a step of the mean; what is hidden stays at home and does not move."""
    moves = [update[name] for update in updates if name in update]
    return value - RATE * torch.stack(moves).mean(0) if moves else value


def _factor(own: Exposure) -> float:
    """Return one over the share of the gradient in an update; 1 where the update says nothing of it."""
    products = []
    for client, moment in enumerate(_moments(own, 0, 0, _first(own, 0))):
        update, plain = _sender(own.subject, 1.0)()(client, moment), moment.gradients[0]
        pairs = [(update[name].flatten(), plain[name].flatten()) for name in update]
        products.append([float(sum(one @ other for one, other in how)) for how in (
            [(g, g) for _, g in pairs], pairs, [(o, o) for o, _ in pairs])])  # fmt: skip
    whole, shared, energy = (sum(column) for column in zip(*products, strict=True))
    return whole / shared if abs(shared) > SEEN * sqrt(whole * energy) else 1.0


def _milliseconds(own: Exposure) -> tuple[float, float]:
    defense, now = own.subject.new(), _first(own, 0)
    spent: dict[str, list[float]] = {"defense": [], "gradient": []}
    for at in range(TIMED):
        began = time.perf_counter()
        moment = _moments(own, 0, at, now)[0]
        between = time.perf_counter()
        sent(own.subject, defense, moment)
        spent["defense"].append(time.perf_counter() - between)
        spent["gradient"].append((between - began) / CLIENTS)
    return 1000 * median(spent["defense"]), 1000 * median(spent["gradient"])


def _bytes(own: Exposure) -> tuple[int, int]:
    moments = _moments(own, 0, 0, _first(own, 0))
    whole = 4 * sum(value.numel() for value in own.arena.stage(own.network).weights.values())
    sizes = []
    for client, moment in enumerate(moments):
        update = _sender(own.subject, 1.0)()(client, moment)
        live = sum(int((value != 0).sum()) for value in update.values())
        sizes.append(min(4 * sum(value.numel() for value in update.values()), 8 * live))
    return round(fmean(sizes)), whole


def _noise_of(lost: float, plain: float, own: Exposure) -> float | None:
    """Return the deviation of noise that costs so many points, between those that are tried; None outside of them."""
    before: tuple[float, float] | None = None
    for sigma in SIGMAS:
        trainings = [_accuracy(own, _plain(own, pair), pair, _as_it_is, sigma) for pair in range(PAIRS)]
        cost = plain - fmean(trainings)
        if cost >= lost:
            if before is None:
                return None
            share = (lost - before[1]) / max(cost - before[1], 1e-9)
            return exp(log(before[0]) + min(max(share, 0.0), 1.0) * (log(sigma) - log(before[0])))
        before = (sigma, cost)
    return None
