"""Clients of a deal in a round of a training: their own state, batches, rates, facts and random streams."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.captures.client_round import CHANGING
from leaklab.captures.private_images import PrivateImages
from leaklab.captures.start import Start, round_factor
from leaklab.data.augmentations import Augmentation
from leaklab.data.dataset import Dataset, unit_range
from leaklab.data.photographs import in_memory
from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.base import overrides as defense_overrides
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.checkpoint import SENT, SENT_BY, below
from leaklab.federated.client_work import ClientWork
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.local import LocalResult
from leaklab.federated.population import Population
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.specs.base import run_folder
from leaklab.specs.capture import CaptureSpec, ClientChoice
from leaklab.specs.training import TrainedState, TrainSpec


@dataclass(frozen=True, eq=False)
class DealtClients:
    """The chosen clients in the captured round.

    Attributes:
        work: what each of them does, as in a sweep.
        received: the values with which each begins, by name, [G, ...].
        kept: what each has kept for itself, by name, [G, ...].
        factors: what the nominal rate of each is multiplied by.
        unmoved: what each would send that had not moved, by the names of the parameters that leave it, [G, ...].
        silent: first steps of their round whose batches speak to nothing that leaves them.
        images: what they hold, without the samples of the silent steps.
    """

    work: ClientWork
    received: Mapping[str, Tensor]
    kept: Mapping[str, Tensor]
    factors: Sequence[float]
    unmoved: Mapping[str, Tensor]
    silent: int
    images: PrivateImages

    def own_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights that the server made for each client, [G, ...]; none if it sends its ``state``.

        Raises:
            UserError: clients send what the server never had, so that it sees no update.
        """
        made = [name for name in self.unmoved if name not in state]
        private = [name for name in made if name in self.kept and name not in self.work.algorithm.at_server]
        if private or (made and len(made) < len(self.unmoved)):
            raise UserError(
                f"clients send '{(private or made)[0]}', which the server does not send to them: there is no update to "
                "capture; correct upload in the algorithm"
            )
        return {name: self.received[name] for name in made}

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

    def messages(self, spec: CaptureSpec, left: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what the clients sent while they trained, by name, [G, ...], of all that their training ``left``.

        Raises:
            UserError: a client was not drawn, or the messages are none of this network.
        """
        assert isinstance(spec.state, TrainedState)
        assert spec.sending
        file, row = run_folder(spec.sending) / "weights.safetensors", spec.state.replicate
        unheard = [] if SENT_BY not in left else [
            client for client, did in zip(spec.sending.sends, left[SENT_BY][row].tolist(), strict=True) if not did
        ]  # fmt: skip
        if unheard:
            raise UserError(
                f"client {unheard[0]} was not drawn in round {spec.state.round + 1} of the training with seed "
                f"{spec.state.seed}, so it sent nothing: name others under images.clients, or leave sent out"
            )
        sent = {name: value[row] for name, value in below(SENT, left).items()}
        wanted = self.work.lifted("upload", self.received, self.received)
        if {name: value.shape for name, value in sent.items()} != {name: value.shape for name, value in wanted.items()}:
            raise UserError(f"{file} does not hold what these clients send: delete its folder and run snakemake again")
        return {name: sent[name] for name in wanted}


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
    still = work.lifted("upload", received, received)
    unmoved = {name: value for name, value in still.items() if name not in form.buffers}
    if not unmoved:
        raise UserError(f"algorithm '{spec.algorithm_plugin.name}' sends nothing: there is no update to capture")
    factors = [people.factors[client] * round_factor(spec) for client in choice.clients]
    used = torch.unique(torch.cat(list(deal)))
    silent = _silent(work, unmoved)
    images = _images(spec, choice, start, people, used, work, silent)
    return DealtClients(work, received, kept, factors, unmoved, silent, images)


def _silent(work: ClientWork, sent: Mapping[str, Tensor]) -> int:
    """Return how many steps are done before anything moves that is sent."""
    speaking = takewhile(lambda phase: not any(phase.moves(name) for name in sent), work.phases)
    return sum(phase.steps for phase in speaking)


def _images(
    spec: CaptureSpec,
    choice: ClientChoice,
    start: Start,
    people: Population,
    used: Tensor,
    work: ClientWork,
    silent: int,
) -> PrivateImages:
    visits = [Visit(start.seed, client, start.round, people.samples[client]) for client in choice.clients]
    dropouts = work.network.dropouts if spec.mode == "train" else {}
    augmentation: Augmentation = _plugin("data/augmentations", spec.augmentation)
    batches = list(
        batch_stream(people.images, people.labels, visits, dropouts, work.steps, spec.batch_size, augmentation)
    )
    places = torch.stack([visit.batch_indices(work.steps, spec.batch_size)[silent:].flatten() for visit in visits])
    factor = round_factor(spec)
    contexts = [people.context(visit, 0, factor) for visit in visits]
    return PrivateImages(
        batches=batches,
        contexts=[replace(context, draw=draw) for context in contexts for draw in range(spec.draws)],
        unit=_unit(spec, start.dataset, batches[silent:], used[places]),
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
        return unit_range(in_memory(dataset.train_images)[positions], dtype)
    mean, std = (value.to(dtype)[:, None, None] for value in (dataset.mean, dataset.std))
    return torch.cat([batch.images for batch in batches], 1) * std + mean


def _plugin(room: str, component: Component) -> Any:
    return plugins.load(room, component.name, component.settings)
