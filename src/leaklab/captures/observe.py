"""What a server sees of a round of clients, whatever they hold: the one way from private samples to an observation.

The update comes from ``federated.local_training``, the code that trains: there is no second version of a client.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from leaklab.captures.client_round import Steps, filled, part_of
from leaklab.defenses.base import ClientContext
from leaklab.federated.batches import Batch
from leaklab.federated.local import LocalResult
from leaklab.observations.base import Knowledge, Mode, Observation
from leaklab.observations.requirements import check_kind
from leaklab.observations.threat_models import Silence, granted
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.specs.base import CapturedRound

Secret = TypeVar("Secret")
NO_DEFENSE = Component(name="none")
NOTICEABLE, ROUNDINGS = 1e-3, 1000
"""Share of an update's size that no rounding reaches; units in the last place that another way to compute it may."""


@dataclass(frozen=True, eq=False)
class Held(Generic[Secret]):
    """What the clients of a capture hold, and what they do in the round.

    Attributes:
        state: broadcast parameters and running statistics by name.
        parameters: names of those with a gradient, in the model's order.
        mode: state of the clients' layers.
        batches: of each local step, [G, B, ...]; the clients of a group differ by the defense's draws only.
        contexts: one a client, those of a group side by side; what the defense sees.
        steps: the rates that the server prescribes.
        round: from batches and contexts of clients to what they send.
        facts: what a threat model may grant beside the facts of every round (``threat_models.FACTS``).
        secret: from the rates really used [T, E] to the truth.
        hidden: names of parameters that never leave the client.
        statistics: names of running statistics in ``state``.
        unmoved: what clients would send that had not moved, by name, [G, ...], where that is not in ``state``.
        own: weights that the server sent to each client of its own, by name, [G, ...]; it sends no others then.
        silent: first local steps whose batches speak to nothing that is sent.
        together: clients that train at once; None for all. It decides memory, not results.
        diverged: whether the state is that of a training that diverged.
    """

    state: Mapping[str, Tensor]
    parameters: Sequence[str]
    mode: Mode
    batches: Sequence[Batch]
    contexts: Sequence[ClientContext]
    steps: Steps
    round: Callable[[Sequence[Batch], Sequence[ClientContext]], LocalResult]
    facts: Mapping[str, Any]
    secret: Callable[[Tensor], Secret]
    hidden: frozenset[str] = frozenset()
    statistics: frozenset[str] = frozenset()
    unmoved: Mapping[str, Tensor] = field(default_factory=dict)
    own: Mapping[str, Tensor] = field(default_factory=dict)
    silent: int = 0
    together: int | None = None
    diverged: bool = False

    @property
    def labels(self) -> Tensor:
        """Labels of all samples of each trial that the update speaks of, [T, samples], step after step."""
        speaking = self.batches[self.silent :]
        first = speaking[0]
        different = [first] if all(batch is first for batch in speaking) else speaking
        return torch.cat([batch.labels for batch in different], 1).repeat_interleave(self.draws, 0)

    @property
    def draws(self) -> int:
        """Clients of a group."""
        return len(self.contexts) // len(self.batches[0].labels)

    def before(self, name: str) -> Tensor:
        """Return what an update of ``name`` is counted from: one tensor for all clients, or one each, [T, ...]."""
        return self.unmoved[name].repeat_interleave(self.draws, 0) if name in self.unmoved else self.state[name]


def observe(spec: CapturedRound, held: Held[Secret]) -> tuple[Observation, Knowledge, Secret]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    The defense draws from streams named by seed, client and draw, so that a trial does not depend on how many there
    are.

    Raises:
        UserError: a defense that hides everything, or a gradient where the threat model withholds the rate.
    """
    check_kind(spec.kind, spec.threat_model)
    shared = [name for name in held.parameters if name not in held.hidden]
    if not shared:
        raise UserError(f"defense '{spec.defense.name}' hides all of model '{spec.model.name}': there is no update")
    update, rates = _sent(spec, held, shared)
    if held.diverged:  # nobody attacks it, and a file of numbers has no others
        update = {name: value.nan_to_num(0.0, 0.0, 0.0) for name, value in update.items()}
    observation = Observation(
        weights={} if held.own else {name: held.state[name] for name in held.parameters},
        update=update,
        kind=spec.kind,
        mode=held.mode,
        model={"name": spec.model.name, "settings": dict(spec.model.settings)},
        trials=tuple(range(len(rates))),
        buffers={name: value for name, value in held.state.items() if name in held.statistics},
        own={name: held.own[name].repeat_interleave(held.draws, 0) for name in held.parameters if held.own},
        silent=_silence(spec, held, update),
    )
    return observation, _knowledge(spec, held), held.secret(rates)


def _silence(spec: CapturedRound, held: Held[Any], update: Mapping[str, Tensor]) -> dict[int, Silence]:
    if held.diverged:
        return dict.fromkeys(range(len(held.contexts)), "diverged training")
    return silent(update, held.before, divisor(spec, held))


def silent(update: Mapping[str, Tensor], before: Callable[[str], Tensor], divisor: float) -> dict[int, Silence]:
    """Return which trials say nothing of their samples, and why.

    A client subtracts two numbers that were rounded, which adds an error of a variance of a twelfth of the square of a
    unit in the last place: an update that is no larger than all these errors together is what rounding made of it. Rows
    without any change are left out, as frozen layers and words that no sentence has are exactly where they were.

    Args:
        update: by name, [T, ...].
        before: from a name to what its update is counted from, [...] or [T, ...].
        divisor: by which the differences of the weights were divided.
    """
    found: dict[int, Silence] = {}
    for trial in range(len(next(iter(update.values())))):
        moved = rounded = 0.0
        for name, value in update.items():
            start = before(name)
            change = _rows(value[trial])
            units = _last_places(_rows(start[trial] if start.dim() == value.dim() else start)[change.any(1)])
            moved += float((change.double() * divisor).square().sum())
            rounded += float(units.square().sum()) / 12
        if moved <= rounded:
            found[trial] = "update below rounding" if rounded else "zero update"
    return found


def _last_places(values: Tensor) -> Tensor:
    """Return a unit in the last place of each value, float64; 0 of a zero, beside which nothing is lost."""
    units = torch.finfo(values.dtype).eps * torch.exp2(torch.frexp(values).exponent.double() - 1)
    return units.masked_fill(values == 0, 0.0)


def _rows(values: Tensor) -> Tensor:
    """Return a tensor as a matrix; each number of a vector is a row."""
    return values.reshape(values.shape[0] if values.dim() else 1, -1)


def divisor(spec: CapturedRound, held: Held[Any]) -> float:
    """Return by what the difference of the weights is divided to make an update of the spec's kind."""
    return -held.steps.assumed_rate if spec.kind == "gradient" else 1.0


def _sent(spec: CapturedRound, held: Held[Any], shared: Sequence[str]) -> tuple[dict[str, Tensor], Tensor]:
    """Return the updates [T, ...] by name, and the rates [T, E]: of one round, or the mean over several."""
    update, rates = _sent_once(spec, held, shared, held.contexts)
    used = [rates]
    for number in range(1, spec.rounds):
        again, rates = _sent_once(spec, held, shared, [_in_round(context, number) for context in held.contexts])
        used.append(rates)
        for name, value in update.items():
            # a mean that runs along: no sum outgrows the digits of float32
            value += (again[name] - value) / (number + 1)
    longest = max(rates.shape[1] for rates in used)
    return update, torch.stack([filled(rates, longest) for rates in used]).mean(0)


def _in_round(context: ClientContext, number: int) -> ClientContext:
    """Return the client with the randomness that its defense has ``number`` rounds later."""
    return replace(context, round=context.round + number, _streams={})


def _sent_once(
    spec: CapturedRound, held: Held[Any], shared: Sequence[str], contexts: Sequence[ClientContext]
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the updates [T, ...] by name, and the rates [T, E].

    An update is the delta, or the gradient that the server infers: the delta over minus the sum of the assumed rates.
    """
    trials = len(contexts)
    together = held.together or trials
    by = divisor(spec, held)
    # filled in place: joined parts would need the memory twice
    before = {name: held.before(name) for name in shared}
    update = {
        name: value.new_empty((trials, *(value.shape[1:] if name in held.unmoved else value.shape)))
        for name, value in before.items()
    }
    rates = []
    for first in range(0, trials, together):
        rows = range(first, min(first + together, trials))
        batches = held.batches if len(rows) == trials else part_of(held.batches, rows, trials)
        result = held.round(batches, contexts[rows.start : rows.stop])
        part = slice(rows.start, rows.stop)
        for name, value in update.items():
            start = before[name][part] if name in held.unmoved else before[name]
            value[part] = (result.weights[name] - start) / by
        rates.append(result.rates)
    longest = max(part.shape[1] for part in rates)
    return update, torch.cat([filled(part, longest) for part in rates])


def changes_update(seen: Mapping[str, Tensor], plain: Mapping[str, Tensor], least: float | None = None) -> bool:
    """Tell whether updates under a defense, [T, ...] by name, are in any trial others than those without.

    Args:
        seen: under the defense.
        plain: of the same clients without; where each has one trial only, it stands for all of the client's draws.
        least: share of its size by which an update has to differ; by default more than roundings.
    """
    if set(seen) != set(plain):
        return True
    first = next(iter(plain.values()))
    if least is None:
        least = ROUNDINGS * torch.finfo(first.dtype).eps
    draws = len(next(iter(seen.values()))) // len(first)
    alike = {name: value.repeat_interleave(draws, 0) for name, value in plain.items()}
    difference, size = (
        torch.stack([value.flatten(1).double().norm(dim=1) for value in values]).norm(dim=0)
        for values in ([seen[name] - alike[name] for name in alike], alike.values())
    )
    return bool((difference > least * size).any())


def _knowledge(spec: CapturedRound, held: Held[Any]) -> Knowledge:
    facts: dict[str, Any] = {
        "architecture": {"name": spec.model.name, "settings": dict(spec.model.settings)},
        "weights": "in the observation",
        "nominal_rate": held.steps.rate,
        "local_steps": spec.local_steps,
        "defense": {"name": spec.defense.name, "settings": dict(spec.defense.settings)},
        "labels": held.labels.tolist(),
        **held.facts,
        # left out otherwise, as captures of one round were made before there were others
        **({"rounds": spec.rounds} if spec.rounds > 1 else {}),
    }
    allowed = granted(spec.threat_model)
    return Knowledge(spec.threat_model, {fact: value for fact, value in facts.items() if fact in allowed})
