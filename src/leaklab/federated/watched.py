"""What is noted of local training in every round, beside tests: its loss, and how far a client's extractor moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leaklab.federated.algorithms.base import Tensors
from leaklab.federated.algorithms.parts import classifier_names, is_statistic
from leaklab.federated.client_work import ClientWork, Worked
from leaklab.federated.population import Population
from leaklab.federated.sweep import Piece
from leaklab.records.train_spec import EXTRACTOR_CHANGE, LOCAL_LOSS

FOLLOWED = 0
"""The client whose extractor is followed."""


@dataclass(eq=False)
class Notes:
    """What was noted in one round.

    Attributes:
        losses: mean batch loss of every client's last epoch, [R, N], float64; NaN where it did not take part.
        extractor: of the followed client after local training by name, [R, ...]; empty where it is not asked for.
    """

    losses: Tensor
    extractor: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Watch:
    """Takes notes for a sweep.

    Attributes:
        wanted: ``local-loss``, ``extractor-change`` or both.
        work: gives the network behind what clients hold.
        epochs: steps of one pass over a client's samples, by client.
        classifier: names of the last layer's tensors; all others are the extractor.
    """

    wanted: Sequence[str]
    work: ClientWork
    epochs: Sequence[int]
    classifier: frozenset[str]

    @classmethod
    def of(cls, people: Population, work: ClientWork, network: Tensors) -> "Watch":
        """Gather what notes need; ``network`` is the model's state in its own order."""
        sizes = [len(held) for held in people.samples]
        epochs = [size // min(people.spec.batch_size, size) for size in sizes]
        return cls(people.spec.watch, work, epochs, classifier_names(network))

    def notes(self, replicates: int) -> Notes:
        """Return empty notes of a round."""
        return Notes(torch.full((replicates, len(self.epochs)), torch.nan, dtype=torch.float64))

    def add(self, notes: Notes, piece: Piece, worked: Worked, settings: int) -> None:
        """Note what the clients of a piece did.

        Args:
            notes: of the round.
            piece: who trained.
            worked: what they have after it.
            settings: settings in the sweep.
        """
        for part, rows, models in piece.places(settings):
            client = part.visit.client
            notes.losses[rows, client] = worked.losses[models, -self.epochs[client] :].double().mean(1).cpu()
            if client == FOLLOWED and EXTRACTOR_CHANGE in self.wanted:
                found = self.extractor({name: value[models] for name, value in worked.values.items()})
                for name, value in found.items():
                    into = notes.extractor.setdefault(name, value.new_zeros(len(notes.losses), *value.shape[1:]))
                    into[rows] = value

    def first(self, server: Tensors, clients: Tensors) -> dict[str, Tensor]:
        """Return the extractor with which the followed client begins, [R, ...]; empty where it is not asked for."""
        if EXTRACTOR_CHANGE not in self.wanted:
            return {}
        own = {name: value[:, FOLLOWED] for name, value in clients.items()}
        return self.extractor(self.work.lifted("receive", server, own))

    def extractor(self, values: Tensors) -> dict[str, Tensor]:
        """Return the weights of the network behind the values, [M, ...], without the classifier."""
        network = self.work.networks(values)
        return {n: v for n, v in network.items() if n not in self.classifier and not is_statistic(n)}

    def columns(self, notes: Notes, before: Mapping[str, Tensor]) -> list[dict[str, float]]:
        """Return the columns of the sweep's table for every replicate.

        ``local_loss`` is the mean over the clients that took part, ``extractor_change`` the Euclidean distance of the
        followed client's extractor to the one ``before``, both after local training.
        """
        found: list[dict[str, float]] = [{} for _ in notes.losses]
        for replicate, columns in enumerate(found):
            if LOCAL_LOSS in self.wanted:
                columns["local_loss"] = float(notes.losses[replicate].nanmean())
            if EXTRACTOR_CHANGE in self.wanted:
                after = notes.extractor or before  # where all have stopped, nobody is followed
                parts = [(after[name][replicate] - before[name][replicate]).flatten() for name in sorted(after)]
                columns["extractor_change"] = float(torch.cat(parts).double().norm())
        return found
