"""A client that does one thing differently: the same samples in a larger batch, more steps, noise, tensors left out."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import hypot

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.records.streams import stream

MOST_GROUPS = 16
"""Groups of tensors that are left out one by one; neighbours share one where there are more."""


def with_batch(case: Case, size: int) -> Case:
    """Return the case of a client with so many samples in one batch, the first ones private, the others public."""
    assert case.inputs is not None
    assert case.targets is not None
    inputs, targets, public = case.inputs[:size], case.targets[:size], case.public
    if size > len(inputs):
        assert public is not None
        order = stream(case.seed, "fill").permutation(len(public[0]))
        fill, rest = order[: size - len(inputs)], order[size - len(inputs) :]
        inputs = torch.cat([inputs, public[0][fill].to(inputs)])
        targets = torch.cat([targets, public[1][fill].to(targets)])
        public = None if len(rest) < 2 else (public[0][rest], public[1][rest])
    client = replace(case.client, batch_size=None)
    changed = replace(case, inputs=inputs, targets=targets, public=public)
    return _sent_by(changed, client)


def with_steps(case: Case, steps: int) -> Case:
    """Return the case of a client that does so many local steps and sends the difference of its weights."""
    assert case.inputs is not None
    assert case.targets is not None
    sends = "delta" if case.client.sends == "gradient" else case.client.sends
    client = replace(case.client, steps=steps, sends=sends)
    return _sent_by(case, client)


def _sent_by(case: Case, client: Client) -> Case:
    """Return the case of another client, with the noise that was found in what the first one sent."""
    assert case.inputs is not None
    assert case.targets is not None
    sent = replace(case, client=client, exchange=client.round(case.inputs, case.targets), noise=0.0)
    return with_noise(sent, case.noise) if case.noise else sent


def with_noise(case: Case, sigma: float) -> Case:
    """Return the case with N(0, sigma^2) added to each number that is sent; its size is known, as that of any."""

    def noisy(name: str, sent: Tensor) -> Tensor:
        return sent + (sigma * stream(case.seed, "noise", name).normal(*sent.shape)).to(sent)

    sent = {name: noisy(name, one) if one.is_floating_point() else one for name, one in case.exchange.sent.items()}
    return replace(case, exchange=replace(case.exchange, sent=sent), noise=hypot(case.noise, sigma))


def without(case: Case, names: Collection[str]) -> Case:
    """Return the case in which some tensors are not sent."""
    sent = {name: one for name, one in case.exchange.sent.items() if name not in names}
    return replace(case, exchange=replace(case.exchange, sent=sent))


def groups_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the tensors by the modules that have them, in their order; neighbours together where there are many."""
    modules: dict[str, list[str]] = {}
    for name in names:
        modules.setdefault(name.rpartition(".")[0], []).append(name)
    each = -(-len(modules) // MOST_GROUPS)
    own = list(modules.values())
    return [tuple(name for one in own[at : at + each] for name in one) for at in range(0, len(own), each)]


def root_mean_square(exchange: Exchange) -> float:
    """Return the root mean square of all that was sent, as a change of the weights."""
    every = [exchange.direction(name).flatten() for name, one in exchange.sent.items() if one.is_floating_point()]
    return float(torch.cat(every).square().mean().sqrt())
