"""What a training spends of its clients' privacy, where the defense has an accountant."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from leaklab.defenses.base import overrides
from leaklab.federated.checkpoint import State
from leaklab.federated.client_work import ClientWork
from leaklab.federated.population import Population
from leaklab.federated.sweep import sampled_clients
from leaklab.records.errors import UserError


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
