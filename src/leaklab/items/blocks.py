"""What a block of runs says besides the fields of its runs."""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Rate, distinct
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.record import Record, canonical_json
from leaklab.specs.training import TrainSpec

if TYPE_CHECKING:
    from leaklab.items.expand import PlannedRun
    from leaklab.specs.base import Spec


AS_DESCRIBED = "as-described"
MOST_RUNS = 10_000
"""Of one block at one scale: the largest table here has some hundred."""


class Override(Record):
    """Fields that are set where others have a value.

    Attributes:
        when: path -> value, or list of values of which any will do; all paths have to match.
        set: path -> new value.
    """

    when: dict[str, Any]
    set: dict[str, Any]


class BlockKeys(Record):
    """The keys of a block that are no fields of its runs (``config/README.md``, "Blocks of runs")."""

    stage: str
    variant: str = AS_DESCRIBED
    overrides: tuple[Override, ...] = ()
    skip: tuple[dict[str, Any], ...] = ()
    keep: tuple[Count, ...] = ()
    attacker: Literal["paper", "blind", "knowing"] | None = None


BLOCK_KEYS = {*BlockKeys.model_fields, "like"}


def overrides_at_scale(block: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block's overrides under their key as a scale has them: its own, then those of the scale.

    An override of the scale stands for those of the block with the same condition, and an empty list of the scale for
    all. So what is added to a block holds at every scale that does not say otherwise.

    Args:
        block: its keys, as written.
        changes: what the scale sets in every block, then in this one; empty is returned where none names overrides.
    """
    merged: dict[str, Any] = {}
    for of_scale in (change["overrides"] for change in changes if "overrides" in change):
        merged = {"overrides": _merged(merged.get("overrides", block.get("overrides")), of_scale)}
    return merged


def _merged(own: Any, of_scale: Any) -> Any:
    """Return both lists as one; what is no list is left to the check of a block's keys."""
    if not isinstance(own, list) or not isinstance(of_scale, list) or not of_scale:
        return of_scale
    again = [override.get("when") for override in of_scale if isinstance(override, dict)]
    kept = [override for override in own if not (isinstance(override, dict) and override.get("when") in again)]
    return [*kept, *of_scale]


class RateGrid(Record):
    """``rate: {grid: [[0.01], [0.01, 0.02]]}``: one list per client; all combinations are settings of one sweep."""

    grid: tuple[Distinct[Rate], ...] = Field(min_length=1)


def grid_of_rates(grid: Any, where: str) -> list[list[Any]]:
    """Return all combinations of the lists of a grid.

    Raises:
        UserError: the grid is malformed or too large.
    """
    parse(RateGrid, grid, where)
    lists = grid["grid"]  # as written: whole rates stay whole numbers in the keys of rows
    refuse_too_many([len(rates) for rates in lists], where)
    return [list(combination) for combination in product(*lists)]


def check_axis(values: list[Any], where: str) -> None:
    """Refuse an axis without values, or with one value twice.

    Raises:
        UserError: with the place of the axis.
    """
    if not values:
        raise UserError(f"{where}: the list is empty, so nothing would run: name a value, or drop the block")
    try:
        distinct(tuple(values))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def refuse_too_many(lengths: list[int], where: str) -> None:
    """Refuse axes whose product nobody can mean.

    Raises:
        UserError: with the number of combinations.
    """
    if prod(lengths) > MOST_RUNS:
        raise UserError(f"{where}: {prod(lengths):,} combinations: more than {MOST_RUNS:,} are a slip of the pen")


# A capture block that starts from a training of the same item: ``state: {block: training, round: 5}``.

KEYS = {"block", "round", "replicate", "where"}
SHARED = (
    "dataset", "model", "defense", "local_steps", "batch_size", "dtype",
    "optimizer", "weight_decay", "schedule", "augmentation", "algorithm",
)  # fmt: skip
"""Fields that a capture takes from the training unless its block says otherwise."""

Runs = Callable[[str], Iterable["PlannedRun"]]


def with_state(choice: dict[str, Any], runs: Runs, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the block's fields with those that the training gives, and the same as fields of the spec.

    Args:
        choice: one value a field.
        runs: from the name of a block to its runs.
        where: place in the user's file.

    Raises:
        UserError: an unknown key or block, a training that is not told apart from others, or a round or replicate
            that it does not have.
    """
    state = choice.get("state")
    if not isinstance(state, Mapping) or "block" not in state:
        return choice, choice
    where = f"{where}.state"
    if set(state) - KEYS or not {"block", "round"} <= set(state):
        raise UserError(f"{where}: a state has the keys block, round, replicate and where, not {', '.join(state)}")
    training, replicate = _training(choice, state, runs, where), state.get("replicate", 0)
    last = len(training.seeds) * len(training.rates) - 1
    if isinstance(replicate, bool) or not isinstance(replicate, int) or not 0 <= replicate <= last:
        raise UserError(f"{where}.replicate: '{state['block']}' has the replicates 0 to {last}, not {replicate}")
    given = training.model_dump()
    # a row path like ``until`` points into trainings and captures alike
    filled = {name: given[name] for name in SHARED} | {"mode": "train", "until": state["round"]} | choice
    images = choice.get("images")
    if isinstance(images, Mapping) and "clients" in images:
        filled["images"] = {"partition": given["partition"], **images}
    if "rate" not in filled:
        filled["rate"] = _rate(training, replicate, filled.get("images"), where)
    spec = {key: value for key, value in filled.items() if key != "until"}
    return filled, spec | {"state": {"train": given, "replicate": replicate}}


def _training(choice: Mapping[str, Any], state: Mapping[str, Any], runs: Runs, where: str) -> TrainSpec:
    """Return the training of the block, stopped at the round, that agrees with ``where``, else with the capture."""
    found = [(run, run.spec) for run in runs(str(state["block"])) if isinstance(run.spec, TrainSpec)]
    if not found:
        raise UserError(f"{where}.block: '{state['block']}' is no block of trainings: name one with stage: train")
    choices = [{key: value for key, value in run.choice.items() if key != "until"} for run, _ in found]
    axes = sorted({key for own in choices for key in own if own[key] != choices[0].get(key)})
    wanted = dict(state.get("where", {})) or {key: choice[key] for key in axes if key in choice}
    unknown = [key for key in wanted if key not in choices[0]]
    if unknown:
        raise UserError(f"{where}.where: block '{state['block']}' has no field '{unknown[0]}': it differs by {axes}")
    fitting = [
        spec
        for own, (_, spec) in zip(choices, found, strict=True)
        if all(_name(own.get(key)) == _name(value) for key, value in wanted.items())
    ]
    stopped = {canonical_json(_stopped(spec, state["round"], where)): spec for spec in fitting}
    if len(stopped) != 1:
        differ = ", ".join(axes) or "nothing that has a name"
        raise UserError(
            f"{where}: {len(stopped)} trainings of block '{state['block']}' fit (they differ by {differ}): "
            "say which, e.g. where: {defense: none}"
        )
    return _stopped(next(iter(stopped.values())), state["round"], where)


def _stopped(training: TrainSpec, last: Any, where: str) -> TrainSpec:
    """Return the training that stops after ``last`` rounds; the whole one, if these are all."""
    if isinstance(last, bool) or not isinstance(last, int) or not 0 <= last <= training.rounds:
        raise UserError(f"{where}.round: the training has the rounds 0 to {training.rounds}, not {last}")
    return training.whole.model_copy(update={"until": None if last == training.rounds else last})


def _rate(training: TrainSpec, replicate: int, images: Any, where: str) -> float:
    rates = training.rates[replicate % len(training.rates)]
    clients = images.get("clients", ()) if isinstance(images, Mapping) else ()
    if len(rates) == 1:
        return rates[0]
    own = {rates[client] for client in clients if isinstance(client, int) and client < len(rates)}
    if len(own) != 1:
        raise UserError(
            f"{where}: the clients of this training have rates of their own: say 'rate', or name one client"
        )
    return own.pop()


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, Mapping) and "name" in value else value


def kept_states(spec: "Spec | None", rounds: tuple[int, ...], where: str) -> tuple[TrainSpec, ...]:
    """Return the trainings behind the states that a block keeps beside the last one, which goes on from them.

    Raises:
        UserError: no training, one that cannot be stopped on its way, or a round that it does not reach.
    """
    if not rounds:
        return ()
    if not isinstance(spec, TrainSpec):
        raise UserError(f"{where}: states are kept of a training (stage: train): leave it out")
    if not spec.goes_on:
        raise UserError(f"{where}: a training with a goal or a watch is not stopped on its way: leave it out")
    if max(rounds) >= spec.rounds_done:
        raise UserError(
            f"{where}: the training ends after {spec.rounds_done} rounds, and keeps its last state anyway: name rounds "
            f"from 1 to {spec.rounds_done - 1}, not {max(rounds)}"
        )
    return tuple(spec.model_copy(update={"until": last}) for last in rounds)


# A training on a backbone that the same item trains: ``backbone: {block: pretraining}``.


def with_backbone(fields: dict[str, Any], name: str, runs: Runs, where: str) -> dict[str, Any]:
    """Return the fields of a spec with the training that a block of the item names as backbone.

    Args:
        fields: one value a field.
        name: of their own block.
        runs: from the name of a block to its runs.
        where: place in the user's file.

    Raises:
        UserError: an unknown key or block, the own block, or one with several trainings.
    """
    backbone = fields.get("backbone")
    if not isinstance(backbone, Mapping) or "block" not in backbone:
        return fields
    where = f"{where}.backbone"
    if set(backbone) != {"block"}:
        raise UserError(f"{where}: a backbone of this item has the key block alone, not {', '.join(backbone)}")
    if backbone["block"] == name:
        raise UserError(f"{where}.block: a training cannot be its own backbone: name another block")
    specs = [run.spec for run in runs(str(backbone["block"]))]
    found = {canonical_json(spec): spec for spec in specs if isinstance(spec, TrainSpec)}
    if len(found) != 1:
        raise UserError(
            f"{where}.block: '{backbone['block']}' has {len(found)} trainings: name one with stage: train and no axes"
        )
    (training,) = found.values()
    return {**fields, "backbone": {"train": training.model_dump()}}
