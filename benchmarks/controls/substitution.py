"""Which runs put a control in place of an item's defenses: those without defense, again, with the control."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from leaklab.items.expand import PlannedRun
from leaklab.items.items import Item
from leaklab.observations.client_requirements import samples_seen
from leaklab.observations.requirements import check_transform
from leaklab.planning.checks import check_attack
from leaklab.records.errors import UserError
from leaklab.records.record import Component, canonical_json
from leaklab.report.collect.attempts import attack_name
from leaklab.report.collect.source import row_of
from leaklab.specs.attack import AttackSpec, ScoreSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.text import TextScoreSpec

CONTROLS = ("no-op", "sign-flip", "scaled-copy")
KEY, NONE, PAPER, KNOWING = "control", "none", "paper", "knowing"
Attacked = ScoreSpec | TextScoreSpec
PLAIN = "fedavg"
STEPWISE = {"matching": "unrolled"}
PRIOR: Mapping[str, Any] = {"attack": {"name": "annealed-map"}, "iterations": 60}
"""The strongest attacker of the house where nothing is hidden, whatever the item has tried: he makes the premise."""
LEARNT: Mapping[str, Any] = {
    "attack": {"name": "annealed-likelihood", "coarsest": 0.3, "finest": 0.003, "stages": 5},
    "transform": {"name": "learnt"},
    "iterations": 40,
}
"""The attacker who learns a control from public images."""


@dataclass(frozen=True)
class Substitution:
    """A control in an item.

    Attributes:
        item: with the control as a key of its rows.
        control: name of the plug-in.
        undefended: the runs without defense.
        controlled: the same and, of the attacks on defenses, those that may be run on the control.
    """

    item: Item
    control: str
    undefended: tuple[PlannedRun, ...]
    controlled: tuple[PlannedRun, ...]

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """All runs."""
        return self.undefended + self.controlled


def attacked(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Return the runs that attack clients and score it."""
    return [run for run in runs if isinstance(run.spec, Attacked)]


def is_privacy_item(runs: Iterable[PlannedRun]) -> bool:
    """Tell whether an item attacks clients that have a defense."""
    return any(_defense(run) != NONE for run in attacked(runs))


def substituted(item: Item, runs: Sequence[PlannedRun], control: str) -> Substitution | None:
    """Return an item's runs with a control in place of its defenses; None where it has no runs without defense.

    The control is captured as the undefended client is, so that nothing but the defense differs, and gets every attack
    that was tried there; beside them those that were tried on a defense in the same setting.
    """
    every = [_in_a_round_again(run) for run in attacked(runs)]
    plain, defended = ([run for run in every if (_defense(run) == NONE) is bare] for bare in (True, False))
    named = [run for run in plain if NONE in row_of(item, run).values()]
    if not (plain and defended and item.cells):
        return None
    cells: dict[str, list[PlannedRun]] = {}
    # what is made for the undefended update and some defenses by name is given to neither side
    for run in (one for one in named or plain if _fits(_on(one, one, control).spec)):
        cells.setdefault(_cell(item, run), []).append(run)
    for own in cells.values():
        own += _of_house(own[0], PRIOR)
    more: dict[str, list[PlannedRun]] = {name: [] for name in cells}
    for run in defended:
        more[max(cells, key=lambda name: _alike(item, cells[name][0], run))].append(run)
    keyed = item.model_copy(update={"cells": item.cells.model_copy(update={"row": {**item.cells.row, KEY: KEY}})})
    undefended = tuple(_labelled(run, NONE) for own in cells.values() for run in own)
    controlled = tuple(run for name, own in cells.items() for run in _with_control(own, more[name], control))
    return Substitution(keyed, control, undefended, controlled)


def _in_a_round_again(run: PlannedRun) -> PlannedRun:
    """Return a run of which the clients do their round again, where the item took what they sent in the training."""
    attack = run.spec.attack  # type: ignore[union-attr]
    if not getattr(attack.capture, "sent", False):
        return run
    own = attack.model_copy(update={"capture": attack.capture.model_copy(update={"sent": False})})
    return replace(run, spec=run.spec.model_copy(update={"attack": own}))


def _with_control(plain: Sequence[PlannedRun], defended: Sequence[PlannedRun], control: str) -> list[PlannedRun]:
    """Return the attacks of a cell on the control: those without defense, then the others, each once."""
    found = [_on(run, run, control) for run in plain]
    names = {attack_name(run) for run in plain}
    for run in defended:
        if attack_name(run) not in names and type(run.spec) is type(plain[0].spec):
            nearest = max(plain, key=lambda one: _shared_fields(one, run))
            one = _on(nearest, run, control)
            if _fits(one.spec):
                names.add(attack_name(run))
                found.append(one)
    return [*found, *_of_house(found[0], LEARNT)]


def _of_house(run: PlannedRun, who: Mapping[str, Any]) -> list[PlannedRun]:
    """Return an attacker with a public prior on the client of a run; none where he may not be run."""
    if not isinstance(run.spec, ScoreSpec):
        return []
    capture = run.spec.attack.capture
    if capture.server or capture.algorithm_plugin.name != PLAIN or (who is LEARNT and samples_seen(capture) > 1):
        return []
    public = {"dataset": capture.dataset, "split": "train" if capture.images.split == "test" else "test"}
    prior = {**public, "model": "class-gaussian", "steps": 1}
    law = {"law": {"capture": capture, "generator": prior}} if who is LEARNT else {}
    steps = STEPWISE if who is PRIOR and capture.local_steps > 1 else {}
    for rule in _label_rules(capture):
        named = {**who["attack"], **steps, "label_rule": rule}
        fields = {**who, **law, "attack": named, "capture": capture, "generator": prior}
        with suppress(UserError):
            check_attack(attack := AttackSpec.model_validate(fields))
            spec = run.spec.model_copy(update={"attack": attack})
            return [replace(run, block=named["name"], spec=spec, attacker=KNOWING)]
    return []


def _label_rules(capture: CaptureSpec) -> tuple[str, str]:
    """Return the rules by which labels may be had: granted, or read of one sample or of a batch at any scale."""
    return "known", "likelihood" if capture.batch_size == 1 else "unmixed"


def _on(plain: PlannedRun, tried: PlannedRun, control: str) -> PlannedRun:
    """Return the attack of ``tried`` on the client of ``plain``, with the control."""
    capture = plain.spec.attack.capture.model_copy(update={"defense": Component(name=control)})  # type: ignore[union-attr]
    attack: Any = tried.spec.attack  # type: ignore[union-attr]
    is_of_images = isinstance(attack, AttackSpec)
    attack = attack.on(capture) if is_of_images else attack.model_copy(update={"capture": capture})
    named = {KEY: control, "defense": {"name": control}}
    client = {key: value for key, value in plain.choice.items() if key in ("row", *type(capture).model_fields)}
    return replace(
        tried,
        spec=tried.spec.model_copy(update={"attack": attack}),  # type: ignore[union-attr]
        choice={**tried.choice, **client, **named},
        # another attack than those without defense is no attack of the paper on the control
        attacker=tried.attacker if plain is tried else KNOWING,
    )


def _shared_fields(plain: PlannedRun, run: PlannedRun) -> int:
    one, other = (of.spec.attack.capture for of in (plain, run))  # type: ignore[union-attr]
    return sum(getattr(one, name) == getattr(other, name) for name in type(one).model_fields)


def _fits(spec: Any) -> bool:
    if not isinstance(spec.attack, AttackSpec):
        return True
    capture = spec.attack.capture
    try:
        check_transform(spec.attack.transform.name, capture.defense.name, samples_seen(capture))
    except UserError:
        return False
    return True


def _labelled(run: PlannedRun, control: str) -> PlannedRun:
    return replace(run, choice={**run.choice, KEY: control})


def _defense(run: PlannedRun) -> str:
    return str(run.spec.attack.capture.defense.name)  # type: ignore[union-attr]


def _cell(item: Item, run: PlannedRun) -> str:
    return canonical_json({"row": row_of(item, run), "variant": run.variant})


def _alike(item: Item, plain: PlannedRun, run: PlannedRun) -> tuple[bool, int]:
    """Return how much a defended run has in common with an undefended cell, to be compared."""
    one, other = row_of(item, plain), row_of(item, run)
    data: Mapping[str, Any] = run.spec.attack.capture.images if isinstance(run.spec, ScoreSpec) else {}  # type: ignore[assignment]
    same = isinstance(plain.spec, ScoreSpec) and plain.spec.attack.capture.images == data
    return plain.variant == run.variant and same, sum(one.get(key) == value for key, value in other.items())
