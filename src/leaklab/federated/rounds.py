"""One round of a sweep: the clients of all replicates receive, work and send, and the servers take the mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leaklab.data.augmentations import Augmentation
from leaklab.defenses.base import ClientContext
from leaklab.federated.algorithms.base import Tensors
from leaklab.federated.batches import Batch, batch_stream, poisson_stream
from leaklab.federated.checkpoint import State
from leaklab.federated.client_work import ClientWork, Worked
from leaklab.federated.evaluation import OwnTests, Tally
from leaklab.federated.forms.low_rank import TrainedHeads
from leaklab.federated.notes import Notes, Watch
from leaklab.federated.population import Part, Piece, Population, pieces


@dataclass(frozen=True)
class Outcome:
    """What a round gives, for all replicates whether they still count or not.

    Attributes:
        server: what the server holds, by name, [R, ...].
        clients: what the clients keep, by name, [R, N, ...].
        finite: whether losses and values are finite, [R].
        own: the clients' tests, where they were asked for.
        notes: what was noted of local training, likewise.
        sent: what those sent whose messages are kept, where they were asked for.
    """

    server: dict[str, Tensor]
    clients: dict[str, Tensor]
    finite: Tensor
    own: Tally | None
    notes: Notes | None = None
    sent: "Sent | None" = None


@dataclass(frozen=True, eq=False)
class Sent:
    """Messages that are kept as they are sent.

    Attributes:
        clients: whose.
        by: whether each has sent one, [R, C]; nobody does who was not drawn.
        messages: by name, [R, C, ...]; zeros where there is none.
    """

    clients: tuple[int, ...]
    by: Tensor
    messages: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, clients: tuple[int, ...], replicates: int) -> "Sent":
        """Return the place of the messages that are to come."""
        return cls(clients, torch.zeros(replicates, len(clients), dtype=torch.bool))

    def wants(self, who: Sequence[int]) -> bool:
        """Tell whether a message of any of these clients is kept."""
        return any(client in self.clients for client in who)

    def add(self, message: Tensors, rows: Sequence[int], who: Sequence[int]) -> None:
        """Keep what is asked for of a piece's messages [M, ...], of replicates ``rows`` and clients ``who``."""
        for model, (row, client) in enumerate(zip(rows, who, strict=True)):
            if client in self.clients:
                place = self.clients.index(client)
                self.by[row, place] = True
                for name, value in message.items():
                    if name not in self.messages:
                        self.messages[name] = value.new_zeros(*self.by.shape, *value.shape[1:])
                    self.messages[name][row, place] = value[model]


@dataclass(eq=False)
class Rounds:
    """What does not change from round to round, and a counter of the work done.

    Attributes:
        population: the clients.
        work: what each of them does.
        augmentation: how they change their images.
        chunk: models that train together.
        tests: the clients' own tests; None if they are not asked for.
        watch: notes of local training; None if there are none.
        client_steps: optimizer steps of all clients so far.
    """

    population: Population
    work: ClientWork
    augmentation: Augmentation
    chunk: int
    tests: OwnTests | None = None
    watch: Watch | None = None
    client_steps: int = field(default=0, init=False)

    @property
    def _settings(self) -> int:
        return len(self.population.spec.rates)

    def next(self, state: State, index: int, schedule_factor: float, tested: bool, last: bool = False) -> Outcome:
        """Do round ``index``; ``tested`` says whether clients are tested on their own splits.

        In the ``last`` round the messages that the spec asks for are kept as they are sent. In a tested round those
        who were not drawn are trained and tested too, and their training is thrown away.
        """
        running = state.running.view(-1, self._settings).any(1).tolist()
        parts = [part for part in self.population.parts(index) if running[part.seed_index]]
        own = self.tests.tally(len(state.diverged)) if self.tests and tested else None
        notes = self.watch.notes(len(state.diverged)) if self.watch else None
        sent = Sent.of(self.population.spec.sends, len(state.diverged)) if last and self.population.spec.sends else None
        total: dict[str, Tensor] = {}
        clients = {name: value.clone() for name, value in state.clients.items()}
        finite = torch.ones_like(state.diverged)
        for piece in self._pieces(parts):
            rows, who = self._rows(piece)
            server = {name: _held(value, rows) for name, value in state.server.items()}
            kept = {name: value[rows, who] for name, value in clients.items()}
            before, worked, contexts = self._worked(piece, server, kept, schedule_factor, own)
            if self.watch and notes:
                self.watch.add(notes, piece, worked, self._settings)
            thin = self.work.sends_as_trained(before, worked)
            after = worked.known if thin else worked.values
            message = self.work.message(before, after, contexts)
            if sent and sent.wants(who):
                # heads that nobody needs formed are formed for who looks at them; what is summed stays as it is
                sent.add(self.work.message(before, worked.values, contexts) if thin else message, rows, who)
            left = self.work.like("keep", self.work.lifted("keep", kept, after), kept)
            term, absorbed = self.work.lifted("absorb", server, left, message)
            left = self.work.like("absorb", absorbed, kept)
            for name, value in left.items():
                clients[name][rows, who] = value
            self._add(total, term, piece, len(finite))
            if thin and worked.heads:
                self._add_heads(total, worked.heads, piece, len(finite))
            self._note_finite(finite, worked.learned, left, piece)
        if own is not None:
            self._test_the_others(state, parts, schedule_factor, own)
        new = self.work.lifted("server_step", state.server, total) if parts else state.server
        server = dict(self.work.like("server_step", new, state.server))
        for value in server.values():
            finite &= _rows_finite(value)
        return Outcome(server, clients, finite, own, notes, sent)

    def _test_the_others(self, state: State, parts: Sequence[Part], schedule_factor: float, own: Tally) -> None:
        for piece in self._pieces(self.population.others(parts)):
            rows, who = self._rows(piece)
            server = {name: _held(value, rows) for name, value in state.server.items()}
            kept = {name: value[rows, who] for name, value in state.clients.items()}
            self._worked(piece, server, kept, schedule_factor, own)

    def _worked(
        self, piece: Piece, server: Tensors, kept: Tensors, schedule_factor: float, own: Tally | None
    ) -> tuple[Mapping[str, Tensor], Worked, list[ClientContext]]:
        """Return what the clients of a piece received, what they made of it, and their contexts."""
        people, width = self.population, range(piece.first, piece.last)
        models = [(part.visit, setting) for part in piece.parts for setting in width]
        contexts = [people.context(visit, setting, schedule_factor) for visit, setting in models]
        factors = [people.factors[visit.client] * schedule_factor for visit, _ in models]
        before = self.work.lifted("receive", server, kept)
        worked = self.work.train(before, kept, self._batches(piece), contexts, factors)
        self.client_steps += worked.steps
        if own is not None and self.tests is not None:
            networks = {"before": self.work.networks(before), "after": self.work.trained_networks(worked)}
            for when, weights in networks.items():
                self.tests.add(own, when, piece, weights, self._settings)
        return before, worked, contexts

    def _pieces(self, parts: Sequence[Part]) -> Iterator[Piece]:
        return pieces(parts, self._settings, self.chunk, self.population.spec.batch_size)

    def _rows(self, piece: Piece) -> tuple[list[int], list[int]]:
        """Return replicate and client of every model."""
        pairs = [(row, part.visit.client) for part in piece.parts for row in piece.replicates(part, self._settings)]
        return [row for row, _ in pairs], [client for _, client in pairs]

    def _batches(self, piece: Piece) -> Iterator[Batch]:
        people, visits = self.population, [part.visit for part in piece.parts]
        if self.work.defense.poisson_batches():
            return poisson_stream(
                people.images, people.labels, visits, self.work.steps, people.spec.batch_size, self.augmentation
            )
        return batch_stream(
            people.images, people.labels, visits, self.work.network.dropouts,
            self.work.steps, people.spec.batch_size, self.augmentation,
        )  # fmt: skip

    def _add(self, total: dict[str, Tensor], term: Tensors, piece: Piece, replicates: int) -> None:
        for name, value in term.items():
            if name not in total:
                total[name] = value.new_zeros(replicates, *value.shape[1:])
        for part, rows, models in piece.places(self._settings):
            for name, value in term.items():
                total[name][rows].add_(value[models], alpha=part.weight)

    def _add_heads(self, total: dict[str, Tensor], heads: TrainedHeads, piece: Piece, replicates: int) -> None:
        """Add to the mean what no client formed; each server's sum is taken at once."""
        shares: dict[int, list[tuple[int, float]]] = {}
        for part, rows, models in piece.places(self._settings):
            for row, model in zip(range(rows.start, rows.stop), range(models.start, models.stop), strict=True):
                shares.setdefault(row, []).append((model, part.weight))
        for row, own in shares.items():
            for name, value in heads.sum(*zip(*own, strict=True)).items():
                if name not in total:
                    total[name] = value.new_zeros(replicates, *value.shape)
                total[name][row] += value

    def _note_finite(self, finite: Tensor, learned: Tensor, kept: Tensors, piece: Piece) -> None:
        for value in kept.values():
            learned = learned & _rows_finite(value)
        for _, rows, models in piece.places(self._settings):
            finite[rows] &= learned[models]


def _held(value: Tensor, rows: Sequence[int]) -> Tensor:
    """Return what the servers hold for each model, [M, ...]; where one server has them all, without a copy for each."""
    return value[rows[0]].expand(len(rows), *value.shape[1:]) if len(set(rows)) == 1 else value[rows]


def _rows_finite(value: Tensor) -> Tensor:
    return value.reshape(len(value), -1).isfinite().all(1)
