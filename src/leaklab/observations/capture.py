"""Capture: what clients with few private samples send in one round, and the secret behind it.

The update comes from ``federated.local_training``, the code that trains: there is no second version of a client.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.data.dataset import Dataset, unit_range
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.batches import Batch
from leaklab.federated.local import local_training
from leaklab.federated.network import trainable
from leaklab.models.base import Architecture
from leaklab.observations.artefacts import Truth
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.requirements import check_kind
from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec, ImageChoice
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


# over fifty lines: a moved line here makes every published attack stale, so it is split with the next full run
def capture(spec: CaptureSpec, dataset: Dataset) -> tuple[Observation, Knowledge, Truth]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    Trials are groups of ``batch_size`` chosen images times ``draws``, the draws of one group side by side. The client
    repeats its one batch in every local step. Its inputs are on the [0, 1] scale and not normalised, as attacks
    expect. Layers are in their evaluation state. The defense draws from streams named by seed, first image and draw,
    so that a trial does not depend on how many there are.

    Raises:
        UserError: too few images, a batch size that does not divide their number, a defense that keeps weights
            back, or a gradient where the threat model withholds the rate.
    """
    check_kind(spec.kind, spec.threat_model)
    dtype = getattr(torch, spec.dtype)
    images, labels = dataset.part(spec.images.split)
    groups = _groups(choose_images(spec.images, images), spec.batch_size)
    batch = Batch(unit_range(images[groups], dtype), labels[groups], {})
    architecture: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
    network = architecture.initialised(dataset.shape, dataset.num_classes, spec.seed, dtype)
    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    defense: Defense = plugins.load("defenses", spec.defense.name, spec.defense.settings)
    _refuse_hidden_weights(defense, network, spec)
    contexts = [
        ClientContext(
            scaled_rate=spec.client_weight * spec.rate,
            seed=spec.seed,
            client=int(group[0]),
            draw=draw,
            num_classes=len(set(labels[group].tolist())),
        )
        for group in groups
        for draw in range(spec.draws)
    ]
    stacked = {name: value.expand(len(contexts), *value.shape) for name, value in weights.items()}
    form = trainable(network, dataset.shape)
    if form.buffers:
        raise UserError(
            f"model '{spec.model.name}' keeps running statistics, whose updates cannot be captured yet: choose a model "
            "without batch normalization"
        )
    result = local_training(form, stacked, [batch] * spec.local_steps, contexts, defense)
    observation = Observation(
        weights=weights,
        update=_update(result.weights, weights, spec),
        kind=spec.kind,
        mode="eval",
        model={"name": spec.model.name, "settings": dict(spec.model.settings)},
        trials=tuple(range(len(contexts))),
    )
    truth = Truth(
        images=batch.images.repeat_interleave(spec.draws, 0),
        labels=batch.labels.repeat_interleave(spec.draws, 0),
        rates=result.rates,
        trials=tuple({"image": _listed(group), "draw": draw} for group in groups for draw in range(spec.draws)),
    )
    return observation, _knowledge(spec, dataset, truth.labels), truth


def choose_images(choice: ImageChoice, images: Tensor) -> Tensor:
    """Return the positions [count] of the first images of a random order that have enough contrast.

    Args:
        choice: how many, from which seed.
        images: uint8 [N, C, H, W], the part that is drawn from.

    Raises:
        UserError: fewer images qualify.
    """
    chosen: list[int] = []
    for index in stream(choice.seed, "private images", choice.split).permutation(len(images)).tolist():
        if len(chosen) == choice.count:
            break
        if _contrast(images[index]) >= choice.min_contrast:
            chosen.append(index)
    if len(chosen) < choice.count:
        raise UserError(
            f"only {len(chosen)} {choice.split} images have a contrast of {choice.min_contrast}: "
            f"ask for fewer than {choice.count} or lower min_contrast"
        )
    return torch.tensor(chosen)


def _groups(chosen: Tensor, batch_size: int) -> Tensor:
    if len(chosen) % batch_size:
        raise UserError(f"{len(chosen)} images do not fill batches of {batch_size}: choose a multiple")
    return chosen.view(-1, batch_size)


def _refuse_hidden_weights(defense: Defense, network: nn.Sequential, spec: CaptureSpec) -> None:
    hidden = sorted(defense.hidden(network))
    if hidden:
        raise UserError(
            f"defense '{spec.defense.name}' keeps {', '.join(hidden)} back: capture a defense that shares all"
        )


def _update(after: Mapping[str, Tensor], before: Mapping[str, Tensor], spec: CaptureSpec) -> dict[str, Tensor]:
    """Return the deltas, or the gradients that the server infers: deltas over -(rate * local_steps)."""
    divisor = -(spec.rate * spec.local_steps) if spec.kind == "gradient" else 1.0
    return {name: (after[name] - before[name]) / divisor for name in before}


def _knowledge(spec: CaptureSpec, dataset: Dataset, labels: Tensor) -> Knowledge:
    facts: dict[str, Any] = {
        "architecture": {"name": spec.model.name, "settings": dict(spec.model.settings)},
        "weights": "in the observation",
        "nominal_rate": spec.rate,
        "local_steps": spec.local_steps,
        "batch_size": spec.batch_size,
        "num_classes": dataset.num_classes,
        "input_shape": list(dataset.shape),
        "input_range": [0.0, 1.0],
        "defense": {"name": spec.defense.name, "settings": dict(spec.defense.settings)},
        "labels": labels.tolist(),
    }
    allowed = granted(spec.threat_model)
    return Knowledge(spec.threat_model, {fact: value for fact, value in facts.items() if fact in allowed})


def _listed(group: Tensor) -> int | list[int]:
    """Return the index of a single image, else the list of indices."""
    indices: list[int] = group.tolist()
    return indices[0] if len(indices) == 1 else indices


def _contrast(image: Tensor) -> float:
    """Return the standard deviation of the pixels of [C, H, W] within a channel, averaged over channels.

    Over all channels together a flat red square would count as rich in contrast.
    """
    return float(unit_range(image, torch.float64).flatten(1).std(1, correction=0).mean())
