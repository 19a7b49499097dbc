"""Clients of a deal in a round of a training: their own state, batches, rates, facts and random streams."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.data.augmentations.base import Augmentation
from leaklab.data.dataset import Dataset, unit_range
from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.base import overrides as defense_overrides
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.client_work import ClientWork
from leaklab.federated.local import LocalResult
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.population import Population
from leaklab.observations.client_round import CHANGING
from leaklab.observations.prescribed import round_factor
from leaklab.observations.private_images import PrivateImages
from leaklab.observations.start import Start
from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec, ClientChoice
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.records.train_spec import TrainSpec


@dataclass(frozen=True, eq=False)
class DealtClients:
    """The chosen clients in the captured round.

    Attributes:
        work: what each of them does, as in a sweep.
        received: the values with which each begins, by name, [G, ...].
        kept: what each has kept for itself, by name, [G, ...].
        factors: what the nominal rate of each is multiplied by.
        sent: names of the parameters that leave a client.
        images: what they hold.
    """

    work: ClientWork
    received: Mapping[str, Tensor]
    kept: Mapping[str, Tensor]
    factors: Sequence[float]
    sent: Sequence[str]
    images: PrivateImages

    def round(self, batches: Sequence[Batch], contexts: Sequence[ClientContext]) -> LocalResult:
        """Return what the clients send, each once for every draw; the draws of a client are neighbours."""
        draws = len(contexts) // len(batches[0].labels)
        before, kept = (
            {name: value.repeat_interleave(draws, 0) for name, value in part.items()}
            for part in (self.received, self.kept)
        )
        factors = [factor for factor in self.factors for _ in range(draws)]
        worked = self.work.train(before, kept, batches, contexts, factors)
        message = self.work.message(before, worked.values, contexts)
        return LocalResult(message, worked.rates, worked.losses)


def dealt_clients(
    spec: CaptureSpec,
    choice: ClientChoice,
    start: Start,
    deal: Sequence[Tensor],
    form: TrainableNetwork,
    defense: Defense,
    build: Callable[[], nn.Sequential],
) -> DealtClients:
    """Return the chosen clients with what they have, as a training sweep would see them.

    Raises:
        UserError: clients that the deal does not have, or with batches of different size, or a defense or algorithm
            that no training can use.
    """
    algorithm: Algorithm = _plugin("federated/algorithms", spec.algorithm_plugin)
    _refuse_clients(spec, choice, deal)
    _refuse_hooks(spec, algorithm, defense)
    of_training = _round_of(spec, choice, start)
    people = Population.of(of_training, start.dataset, list(deal), algorithm, torch.device("cpu"))
    work = ClientWork(
        algorithm=algorithm,
        network=form,
        defense=defense,
        optimizer=_plugin("federated/optimizers", spec.optimizer),
        weight_decay=spec.weight_decay,
        local_steps=spec.local_steps,
        build=build,
    )
    kept = {name: value[list(choice.clients)] for name, value in start.clients.items()}
    server = {name: value.expand(len(choice.clients), *value.shape) for name, value in start.state.items()}
    received = work.lifted("receive", server, kept)
    sent = [name for name in work.lifted("upload", received, received) if name not in form.buffers]
    if not sent:
        raise UserError(f"algorithm '{spec.algorithm_plugin.name}' sends nothing: there is no update to capture")
    factors = [people.factors[client] * round_factor(spec) for client in choice.clients]
    used = torch.unique(torch.cat(list(deal)))
    return DealtClients(work, received, kept, factors, sent, _images(spec, choice, start, people, used, work))


def _images(
    spec: CaptureSpec, choice: ClientChoice, start: Start, people: Population, used: Tensor, work: ClientWork
) -> PrivateImages:
    visits = [Visit(start.seed, client, start.round, people.samples[client]) for client in choice.clients]
    dropouts = work.network.dropouts if spec.mode == "train" else {}
    augmentation: Augmentation = _plugin("data/augmentations", spec.augmentation)
    batches = list(
        batch_stream(people.images, people.labels, visits, dropouts, work.steps, spec.batch_size, augmentation)
    )
    places = torch.stack([visit.batch_indices(work.steps, spec.batch_size).flatten() for visit in visits])
    factor = round_factor(spec)
    contexts = [people.context(visit, 0, factor) for visit in visits]
    return PrivateImages(
        batches=batches,
        contexts=[replace(context, draw=draw) for context in contexts for draw in range(spec.draws)],
        unit=_unit(spec, start.dataset, batches, used[places]),
        labels=people.labels[places],
        positions=used[places],
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


def _refuse_clients(spec: CaptureSpec, choice: ClientChoice, deal: Sequence[Tensor]) -> None:
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
            f"images.clients: client {least} of partition '{choice.partition.name}' has {len(deal[least])} samples, "
            f"too few for batches of {spec.batch_size} like the others': leave it out or lower batch_size"
        )


def _refuse_hooks(spec: CaptureSpec, algorithm: Algorithm, defense: Defense) -> None:
    unusual = [hook for hook in (*CHANGING, "hidden") if defense_overrides(defense, hook)]
    if unusual:
        raise UserError(
            f"defense '{spec.defense.name}' changes {' and '.join(unusual)}, which no training does: capture it on "
            "drawn images (images.count)"
        )
    useless = [hook for hook in sorted(algorithm.refuses) if defense_overrides(defense, hook)]
    if useless:
        raise UserError(
            f"defense '{spec.defense.name}' changes {' and '.join(useless)}, for which algorithm "
            f"'{spec.algorithm_plugin.name}' has no use: set defense: none"
        )


def _unit(spec: CaptureSpec, dataset: Dataset, batches: Sequence[Batch], positions: Tensor) -> Tensor:
    """Return the images that the clients used, on the [0, 1] scale: augmented ones as they went in."""
    dtype = getattr(torch, spec.dtype)
    if spec.augmentation.name == "none":
        return unit_range(dataset.train_images[positions], dtype)
    mean, std = (value.to(dtype)[:, None, None] for value in (dataset.mean, dataset.std))
    return torch.cat([batch.images for batch in batches], 1) * std + mean


def _plugin(room: str, component: Component) -> Any:
    return plugins.load(room, component.name, component.settings)
