"""Capture: what clients with few private samples send in one round, and the secret behind it.

The update comes from ``federated.local_training``, the code that trains: there is no second version of a client.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leaklab.data.dataset import Dataset, unit_range
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.batches import Batch
from leaklab.federated.network import trainable
from leaklab.models.base import Architecture
from leaklab.observations.artefacts import Truth
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.client_round import client_round
from leaklab.observations.private_images import choose_images, groups
from leaklab.observations.requirements import check_kind
from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.errors import UserError


def capture(spec: CaptureSpec, dataset: Dataset) -> tuple[Observation, Knowledge, Truth]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    Trials are groups of ``batch_size`` chosen images times ``draws``, the draws of one group side by side. The client
    repeats its one batch in every local step. Its inputs are on the scale of ``input_range`` and not normalised, as
    attacks expect. The defense draws from streams named by seed, first image and draw, so that a trial does not depend
    on how many there are.

    Raises:
        UserError: too few images, a batch size that does not divide their number, a defense that hides everything,
            or a gradient where the threat model withholds the rate.
    """
    check_kind(spec.kind, spec.threat_model)
    images, labels = dataset.part(spec.images.split)
    positions = groups(choose_images(spec.images, images), spec.batch_size)
    unit = unit_range(images[positions], getattr(torch, spec.dtype))
    batch = Batch(spec.on_input_range(unit), labels[positions], {})
    architecture: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
    network = architecture.initialised(dataset.shape, dataset.num_classes, spec.seed, unit.dtype)
    state = {name: value.detach().clone() for name, value in network.state_dict().items()}
    parameters = [name for name, _ in network.named_parameters()]
    defense: Defense = plugins.load("defenses", spec.defense.name, spec.defense.settings)
    shared = _shared(parameters, defense.hidden(network), spec)
    form = trainable(network, dataset.shape, training=spec.mode == "train")
    build = partial(architecture.build, dataset.shape, dataset.num_classes)
    result = client_round(spec, form, state, batch, _contexts(spec, batch, positions), defense, build)
    observation = Observation(
        weights={name: state[name] for name in parameters},
        update=_update(result.weights, {name: state[name] for name in shared}, spec),
        kind=spec.kind,
        mode=spec.mode,
        model={"name": spec.model.name, "settings": dict(spec.model.settings)},
        trials=tuple(range(len(result.rates))),
        buffers={name: value for name, value in state.items() if name not in parameters},
    )
    truth = Truth(
        images=unit.repeat_interleave(spec.draws, 0),
        labels=batch.labels.repeat_interleave(spec.draws, 0),
        rates=result.rates,
        trials=tuple({"image": _listed(group), "draw": draw} for group in positions for draw in range(spec.draws)),
    )
    return observation, _knowledge(spec, dataset, truth.labels), truth


def _contexts(spec: CaptureSpec, batch: Batch, positions: Tensor) -> list[ClientContext]:
    return [
        ClientContext(
            scaled_rate=spec.client_weight * spec.rate,
            seed=spec.seed,
            client=int(group[0]),
            draw=draw,
            num_classes=len(set(labels.tolist())),
        )
        for group, labels in zip(positions, batch.labels, strict=True)
        for draw in range(spec.draws)
    ]


def _shared(parameters: list[str], hidden: frozenset[str], spec: CaptureSpec) -> list[str]:
    shared = [name for name in parameters if name not in hidden]
    if not shared:
        raise UserError(f"defense '{spec.defense.name}' hides all of model '{spec.model.name}': there is no update")
    return shared


def _update(after: Mapping[str, Tensor], before: Mapping[str, Tensor], spec: CaptureSpec) -> dict[str, Tensor]:
    """Return the deltas, or the gradients that the server infers: deltas over minus the sum of the assumed rates."""
    divisor = -spec.assumed_rate if spec.kind == "gradient" else 1.0
    return {name: (after[name] - before[name]) / divisor for name in before}


def _knowledge(spec: CaptureSpec, dataset: Dataset, labels: Tensor) -> Knowledge:
    facts: dict[str, Any] = {
        "architecture": {"name": spec.model.name, "settings": dict(spec.model.settings)},
        "weights": "in the observation",
        "nominal_rate": spec.rate,
        "local_steps": spec.local_steps,
        "step_factors": list(spec.step_factors(spec.local_steps)),
        "batch_size": spec.batch_size,
        "num_classes": dataset.num_classes,
        "input_shape": list(dataset.shape),
        "input_range": list(spec.input_range),
        "defense": {"name": spec.defense.name, "settings": dict(spec.defense.settings)},
        "labels": labels.tolist(),
    }
    allowed = granted(spec.threat_model)
    return Knowledge(spec.threat_model, {fact: value for fact, value in facts.items() if fact in allowed})


def _listed(group: Tensor) -> int | list[int]:
    """Return the index of a single image, else the list of indices."""
    indices: list[int] = group.tolist()
    return indices[0] if len(indices) == 1 else indices
