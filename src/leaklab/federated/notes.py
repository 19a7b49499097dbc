"""What is noted of local training in every round, beside tests: its loss, and how far a client's extractor moves."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leaklab.defenses.base import overrides
from leaklab.federated.algorithms.base import Tensors, classifier_names, is_statistic
from leaklab.federated.checkpoint import State
from leaklab.federated.client_work import ClientWork, Worked
from leaklab.federated.population import Piece, Population, sampled_clients
from leaklab.records.errors import UserError
from leaklab.specs.training import EXTRACTOR_CHANGE, LOCAL_LOSS

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


# What a training spends of its clients' privacy, where the defense has an accountant.


@dataclass(frozen=True, eq=False)
class SpentBudget:
    """The budget of the client that spends most.

    Clients are not told from each other by who is drawn: the server knows it. So a client spends in the rounds in which
    it takes part, at the rate min(1, B / n_k), and only in steps that move something that leaves it.

    Attributes:
        work: what a client does in a round.
        population: the clients.
        shared: names of the values that are not the clients' own.
    """

    work: ClientWork
    population: Population
    shared: Collection[str]

    @classmethod
    def of(cls, work: ClientWork, population: Population, state: State) -> "SpentBudget":
        """Return it for a sweep; ``state`` says who holds what."""
        own = state.clients.keys() - work.algorithm.at_server
        shared = (state.server.keys() | state.clients.keys()) - own - set(work.network.buffers)
        return cls(work, population, shared)

    def after(self, seed: int, rounds: int) -> float | None:
        """Return the largest epsilon of a client after so many rounds; None where nothing counts it."""
        people, spec = self.population, self.population.spec
        if not overrides(self.work.defense, "spent"):
            return None
        steps = sum(phase.steps for phase in self.work.phases if any(map(phase.moves, self.shared)))
        taken: Counter[int] = Counter()
        for index in range(rounds):
            taken.update(sampled_clients(seed, index, len(people.samples), spec.clients_per_round))
        # who takes part most often spends most among clients with as many samples
        most: dict[int, int] = {}
        for client, held in enumerate(people.samples):
            most[len(held)] = max(most.get(len(held), 0), taken[client])
        found = [
            self.work.defense.spent(min(1.0, spec.batch_size / samples), steps * often)
            for samples, often in most.items()
        ]
        known = [epsilon for epsilon in found if epsilon is not None]
        return max(known) if known else None

    def column(self, seed: int, rounds: int) -> dict[str, float]:
        """Return ``after`` as a column of the sweep's table; none where nothing counts it."""
        spent = self.after(seed, rounds)
        return {} if spent is None else {"epsilon": spent}

    def refuse_more(self) -> None:
        """Refuse a training that spends more than was asked for.

        Raises:
            UserError: with both budgets.
        """
        defense, spec = self.work.defense, self.population.spec
        if defense.largest_budget is None:
            return
        last = spec.rounds if spec.until is None else spec.until
        spent = max(self.after(seed, last) or 0.0 for seed in spec.seeds)
        if spent > defense.largest_budget:
            raise UserError(
                f"defense '{spec.defense.name}': {last} rounds spend epsilon {spent:.3g}, more than the "
                f"{defense.largest_budget:g} that was asked for: raise sigma or epsilon, or lower rounds or local_steps"
            )
