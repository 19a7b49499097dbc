"""A client's round under an algorithm, for M clients together: receive, the phases of local training, the message.

The hooks of an algorithm are functions of one client; here they are lifted to stacked tensors. A hook that the
algorithm leaves alone only puts names together and is called as it is: federated averaging pays for none.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import vmap

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.base import overrides as defense_overrides
from leaklab.federated.algorithms.base import Algorithm, Phase, Tensors, chosen, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.forms.low_rank import TrainedHeads, fits, generate, low_rank_steps
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.forms.seen import Seen
from leaklab.federated.local import LocalResult, local_steps, sent_weights
from leaklab.federated.optimizers import Optimizer, Sgd
from leaklab.models.hypernetwork import is_hypernetwork
from leaklab.records.errors import UserError
from leaklab.records.purity import watched


@dataclass(frozen=True)
class Worked:
    """What M clients have after the phases.

    Attributes:
        known: values by name, [M, ...], before the defense's ``update``, and without what ``heads`` has.
        rates: learning rates really used, [M, E], float64 on the CPU.
        losses: mean batch loss before each step, [M, E].
        heads: the weights of a hypernetwork's heads, where no client's own were formed.
        names: of all values, in order.
    """

    known: dict[str, Tensor]
    rates: Tensor
    losses: Tensor
    heads: TrainedHeads | None = None
    names: Sequence[str] = ()

    @cached_property
    def values(self) -> dict[str, Tensor]:
        """All values by name, [M, ...]; heads are formed, which takes a hundred networks' room for each client."""
        if self.heads is None:
            return self.known
        found = {**self.known, **self.heads.formed()}
        return {name: found[name] for name in self.names}

    @property
    def learned(self) -> Tensor:
        """Whether all losses are finite, [M]."""
        return self.losses.isfinite().all(1)

    @property
    def steps(self) -> int:
        """Optimizer steps done by all clients."""
        return self.rates.numel()


@dataclass(frozen=True, eq=False)
class ClientWork:
    """How clients work, the same for all clients and rounds of a sweep.

    Attributes:
        algorithm: whose hooks are lifted.
        network: the form in which the network trains.
        defense: of every client.
        optimizer: its state is new in every phase.
        weight_decay: coefficient of the weights in the gradient.
        local_steps: those of the spec; the algorithm's phases may have others.
        build: gives a network of the architecture, for defenses that look into it.
    """

    algorithm: Algorithm
    network: TrainableNetwork
    defense: Defense
    optimizer: Optimizer
    weight_decay: float
    local_steps: int
    build: Callable[[], nn.Sequential] | None = None

    @cached_property
    def phases(self) -> list[Phase]:
        """The stretches of local training that have steps."""
        return [phase for phase in self.algorithm.phases(self.local_steps) if phase.steps]

    @cached_property
    def steps(self) -> int:
        """Optimizer steps of a client in a round; as many batches are used."""
        return sum(phase.steps for phase in self.phases)

    def lifted(self, hook: str, *states: Tensors) -> Any:
        """Call a hook of the algorithm for all at once.

        Args:
            hook: the hook's name.
            states: its arguments with a leading axis; the results have it too.

        Raises:
            UserError: the algorithm's own code failed.
        """
        function = getattr(self.algorithm, hook)
        # nothing to lift where no state has a tensor (what clients do who neither keep nor receive anything)
        neutral = not overrides(self.algorithm, hook) or not any(states)
        try:
            if neutral or hook == "network":  # which is called inside of derivatives; see ``networks``
                return function(*states) if neutral else vmap(function)(*map(dict, states))
            with self._watched(hook, *states):
                return vmap(function)(*map(dict, states))
        except (RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:
            raise UserError(f"{self._file}: {hook} failed with {type(error).__name__}: {error}") from error

    def like(self, hook: str, found: Tensors, before: Tensors) -> Tensors:
        """Return ``found``, a state that ``hook`` gave, if it has the names and shapes of the state before.

        Raises:
            UserError: it has others.
        """
        for name in sorted({*found, *before}) if overrides(self.algorithm, hook) else ():
            shapes = [tuple(state[name].shape[1:]) if name in state else "nothing" for state in (found, before)]
            if shapes[0] != shapes[1]:
                raise UserError(f"{self._file}: {hook} gives {shapes[0]} as '{name}' where the state had {shapes[1]}")
        return found

    @property
    def _file(self) -> str:
        return f"federated/algorithms/{type(self.algorithm).__module__.rpartition('.')[2]}.py"

    def networks(self, values: Tensors) -> Tensors:
        """Return the networks' weights and running statistics that the values stand for, [M, ...]."""
        embedding = self.algorithm.generates_from
        with self._watched("network", values):
            found: Tensors = self.lifted("network", values) if embedding is None else generate(values, embedding)
        return found

    def _watched(self, hook: str, *states: Tensors) -> watched:
        given = {f"argument {place}": state for place, state in enumerate(states, 1)}
        draws = "the draws of server_start or client_start" if overrides(self.algorithm, hook) else ""
        return watched(self.algorithm, call=hook, given=given if draws else {}, draws=draws)

    def trained_networks(self, worked: Worked) -> Tensors:
        """Return the networks that clients have after the phases, [M, ...]."""
        embedding = self.algorithm.generates_from
        if worked.heads is None or embedding is None:
            return self.networks(worked.values)
        return worked.heads.networks(worked.known, embedding)

    def sends_as_trained(self, before: Tensors, worked: Worked) -> bool:
        """Tell whether heads that were not formed reach the server's mean as they are, so that nobody needs them.

        The upload is asked what it does with names that stand for no tensors: whatever reckons with one fails.
        """
        if worked.heads is None or overrides(self.algorithm, "absorb", "keep"):
            return False
        if defense_overrides(self.defense, "update"):
            return False
        marks: dict[str, Any] = {name: object() for name in (*worked.known, *worked.heads.names)}
        received = {name: cast("Tensor", object()) for name in before}
        try:
            sent = self.algorithm.upload(received, marks)
            rest = self.algorithm.upload(received, {name: marks[name] for name in worked.known})
        except (RuntimeError, ValueError, KeyError, TypeError, IndexError, AttributeError):
            return False
        wanted = {**rest, **{name: marks[name] for name in worked.heads.names}}
        return sent.keys() == wanted.keys() and all(value is wanted[name] for name, value in sent.items())

    def train(
        self,
        before: Tensors,
        kept: Tensors,
        batches: Iterable[Batch],
        contexts: Sequence[ClientContext],
        factors: Sequence[float],
    ) -> Worked:
        """Do all phases.

        Args:
            before: the values with which the clients begin by name, [M, ...]; not changed.
            kept: the clients' own state, of which the defense sees no gradients.
            batches: as many as there are steps, each of G groups with G dividing M.
            contexts: one per client, at the spec's nominal rate.
            factors: what the nominal rate of each client was multiplied by; phases with rates of their own need it.
        """
        private = frozenset(kept) - self.algorithm.at_server
        values, rest, heads = dict(before), iter(batches), None
        rates: list[Tensor] = []
        losses: list[Tensor] = []
        for phase in self.phases:
            own = contexts
            if phase.rate is not None:
                own = [replace(c, scaled_rate=phase.rate * f) for c, f in zip(contexts, factors, strict=True)]
            if heads is not None:  # a phase after it may move them
                values |= heads.formed()
            result, heads = self._phase(phase, values, islice(rest, phase.steps), own, private)
            values |= result.weights
            rates.append(result.rates)
            losses.append(result.losses)
        known = chosen(values, lambda name: heads is None or name not in heads.names)
        return Worked(known, _side_by_side(rates), _side_by_side(losses), heads, tuple(values))

    def message(self, before: Tensors, after: Tensors, contexts: Sequence[ClientContext]) -> dict[str, Tensor]:
        """Return what the clients send, [M, ...]; contexts are those of the training, whose private streams go on."""
        sent = dict(self.lifted("upload", before, after))
        if not sent or not defense_overrides(self.defense, "update"):
            return sent
        return sent_weights(
            self.network, {name: before[name] for name in sent}, sent, contexts, self.defense,
            steps=self.steps, build=self.build,
        )  # fmt: skip

    def _phase(
        self,
        phase: Phase,
        values: Tensors,
        batches: Iterable[Batch],
        contexts: Sequence[ClientContext],
        private: frozenset[str],
    ) -> tuple[LocalResult, TrainedHeads | None]:
        moving = {name: value for name, value in values.items() if phase.moves(name)}
        embedding = self.algorithm.generates_from
        if embedding is not None and self._is_low_rank(phase, moving, embedding):
            assert isinstance(self.optimizer, Sgd)
            rates = torch.tensor([context.scaled_rate for context in contexts], dtype=torch.float64)
            return low_rank_steps(
                self.network, phase, values, embedding, batches, rates, self.optimizer, self.weight_decay
            )
        made = partial(self.lifted, "network") if overrides(self.algorithm, "network") else None
        if made and embedding is not None and not any(is_hypernetwork(n) or n == embedding for n in moving):
            values, made = self.networks(values), None  # what generates the network stands still: once will do
        resting = {name: value for name, value in values.items() if name not in moving}
        plain = not resting and phase.bound is None and not made
        done = local_steps(
            self.network if plain else Seen(self.network, phase, moving, resting, made),
            moving,
            batches,
            contexts,
            self.defense,
            optimizer=self.optimizer,
            weight_decay=self.weight_decay,
            build=self.build,
            private=private,
        )
        return done, None

    def _is_low_rank(self, phase: Phase, moving: Tensors, embedding: str) -> bool:
        """Tell whether a phase can do without the heads of every client: plain steps that no defense changes."""
        changed = any(defense_overrides(self.defense, hook) for hook in ("gradient", "local_rate"))
        return isinstance(self.optimizer, Sgd) and not changed and fits(self.network, phase, moving, embedding)


def _side_by_side(phases: Sequence[Tensor]) -> Tensor:
    """Return the columns of all phases; the most usual case, a single one, pays for no copy."""
    return phases[0] if len(phases) == 1 else torch.cat(list(phases), 1)
