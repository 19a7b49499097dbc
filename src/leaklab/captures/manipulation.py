"""Capture by a malicious server: the same clients, who are sent other weights, as often as the server likes."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from leaklab.captures.observe import Held, divisor, observe, silent
from leaklab.captures.start import Start
from leaklab.captures.truth import Truth
from leaklab.models.base import Architecture
from leaklab.models.normalisation import with_batch_statistics
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.servers.base import Server, Tensors, Victims
from leaklab.records import plugins
from leaklab.records.purity import watched
from leaklab.records.record import Component
from leaklab.specs.capture import CaptureSpec

ROOM = "observations/servers"


def manipulated(
    spec: CaptureSpec, server: Component, start: Start, hold: Callable[[Start], Held[Truth]]
) -> tuple[Observation, Knowledge, Truth]:
    """Return what the server sees after its last query, what it is granted to know, and the samples it is after.

    The weights of the observation are those at which its update is the private samples' own.

    Args:
        spec: of the capture.
        server: the plug-in.
        start: the beginning of the round under an honest server.
        hold: from a beginning to what the clients hold.

    Raises:
        UserError: see ``Server`` and ``observe``.
    """
    plugin: Server = plugins.load(ROOM, server.name, server.settings)
    seen: list[tuple[Observation, Knowledge, Truth]] = []

    def ask(changed: Tensors) -> Tensors:
        # the defense's draws are named by the round
        asked = replace(start, state={**start.state, **changed}, round=start.round + len(seen))
        seen.append(observe(spec, hold(asked)))
        return seen[-1][0].update

    held = hold(start)
    victims = Victims(start.state, held.parameters, spec.batch_size, ask)
    with watched(plugin, call="catch", given={"victims.state": start.state}, draws="records.streams.stream(0, name)"):
        caught = plugin.catch(victims)
    wanted = plugin.wanted(*_features(spec, start, held), victims)
    observation, knowledge, truth = seen[0]
    sent = {name: caught.changed.get(name, start.state[name]) for name in held.parameters}
    facts = {
        **knowledge.facts,
        "batch_size": caught.samples,
        "server": {"name": server.name, "settings": dict(server.settings)},
        "queries": caught.queries,
    }
    silence = observation.silent if held.diverged else silent(caught.update, sent.__getitem__, divisor(spec, held))
    return (
        replace(observation, weights=sent, update=caught.update, silent=silence),
        replace(knowledge, facts=facts),
        _only(truth, wanted),
    )


def _features(spec: CaptureSpec, start: Start, held: Held[Truth]) -> tuple[Tensor, Tensor]:
    """Return what the honest network's last layer is given in the clients' state, [T, B, F], and the labels [T, B]."""
    architecture: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
    network = architecture.build(start.dataset.shape, start.dataset.num_classes)
    network.to(getattr(torch, spec.dtype)).load_state_dict(dict(start.state), strict=True)
    batch = held.batches[0]
    layers = with_batch_statistics(network[:-1]) if spec.mode == "train" else network[:-1].eval()
    with torch.no_grad():
        features = torch.stack([layers(images) for images in batch.images])  # a batch has statistics of its own
    return features.repeat_interleave(held.draws, 0), batch.labels.repeat_interleave(held.draws, 0)


def _only(truth: Truth, wanted: Tensor) -> Truth:
    """Return the truth of the wanted samples, [T, S], alone."""
    trials = []
    for trial, places in zip(truth.trials, wanted.tolist(), strict=True):
        images = trial["image"] if isinstance(trial["image"], list) else [trial["image"]]
        own = [images[place] for place in places]
        trials.append({**trial, "image": own[0] if len(own) == 1 else own})
    rows = torch.arange(len(wanted))[:, None]
    return replace(truth, images=truth.images[rows, wanted], labels=truth.labels[rows, wanted], trials=tuple(trials))
