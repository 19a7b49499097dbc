"""Clients of a deal in a round of a training: their own batches, factors of the rate, facts and random streams."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leaklab.data.augmentations.base import Augmentation
from leaklab.data.dataset import unit_range
from leaklab.defenses.base import Defense, overrides
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.population import Population
from leaklab.observations.client_round import CHANGING
from leaklab.observations.private_images import PrivateImages
from leaklab.observations.start import Start
from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec, ClientChoice
from leaklab.records.errors import UserError
from leaklab.records.train_spec import TrainSpec


def dealt_images(
    spec: CaptureSpec,
    choice: ClientChoice,
    start: Start,
    deal: Sequence[Tensor],
    form: TrainableNetwork,
    defense: Defense,
) -> PrivateImages:
    """Return what the chosen clients use in the captured round, as a training sweep would.

    Raises:
        UserError: clients that the deal does not have, or with batches of different size, or a defense that changes
            steps or batches.
    """
    _refuse(spec, choice, deal, defense)
    people = Population.of(_round_of(spec, choice, start), start.dataset, list(deal), torch.device("cpu"))
    visits = [Visit(start.seed, client, start.round, people.samples[client]) for client in choice.clients]
    dropouts = form.dropouts if spec.mode == "train" else {}
    augmentation: Augmentation = plugins.load("data/augmentations", spec.augmentation.name, spec.augmentation.settings)
    batches = list(
        batch_stream(people.images, people.labels, visits, dropouts, spec.local_steps, spec.batch_size, augmentation)
    )
    used = torch.unique(torch.cat(list(deal)))
    positions = torch.stack([used[visit.batch_indices(spec.local_steps, spec.batch_size)] for visit in visits])
    contexts = [
        replace(people.context(visit, 0, start.factor(spec)), draw=draw)
        for visit in visits
        for draw in range(spec.draws)
    ]
    return PrivateImages(
        batches=batches,
        contexts=contexts,
        unit=_unit(spec, start, batches, positions.flatten(1)),
        labels=torch.cat([batch.labels for batch in batches], 1),
        positions=positions.flatten(1),
        clients=choice.clients,
    )


def _round_of(spec: CaptureSpec, choice: ClientChoice, start: Start) -> TrainSpec:
    """Return the training whose clients the captured ones are, with their one rate and seed."""
    return TrainSpec(
        dataset=spec.dataset,
        partition=choice.partition,
        model=spec.model,
        defense=spec.defense,
        algorithm=spec.algorithm,
        rates=((spec.rate,),),
        rounds=start.rounds,
        local_steps=spec.local_steps,
        batch_size=spec.batch_size,
        seeds=(start.seed,),
        dtype=spec.dtype,
    )


def _refuse(spec: CaptureSpec, choice: ClientChoice, deal: Sequence[Tensor], defense: Defense) -> None:
    absent = [client for client in choice.clients if client >= len(deal)]
    if absent:
        raise UserError(
            f"images.clients: partition '{choice.partition.name}' deals to {len(deal)} clients, numbers 0 to "
            f"{len(deal) - 1}: there is no client {absent[0]}"
        )
    sizes = {client: min(spec.batch_size, len(deal[client])) for client in choice.clients}
    if len(set(sizes.values())) > 1 or 0 in sizes.values():
        least = min(sizes, key=lambda client: sizes[client])
        raise UserError(
            f"images.clients: client {least} of partition '{choice.partition.name}' has {sizes[least]} samples, too "
            f"few for batches of {spec.batch_size} like the others': leave it out or lower batch_size"
        )
    changed = [hook for hook in CHANGING if overrides(defense, hook)]
    if changed:
        raise UserError(
            f"defense '{spec.defense.name}' changes {' and '.join(changed)}, which a training does not do: capture it "
            "on drawn images (images.count)"
        )


def _unit(spec: CaptureSpec, start: Start, batches: Sequence[Batch], positions: Tensor) -> Tensor:
    """Return the images that the clients used, on the [0, 1] scale: augmented ones as they went in."""
    dtype = getattr(torch, spec.dtype)
    if spec.augmentation.name == "none":
        return unit_range(start.dataset.train_images[positions], dtype)
    inputs = torch.cat([batch.images for batch in batches], 1)
    mean, std = (value.to(dtype)[:, None, None] for value in (start.dataset.mean, start.dataset.std))
    return inputs * std + mean
