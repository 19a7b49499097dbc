"""A capture block that starts from a training of the same item: ``state: {block: training, round: 5}``.

The block says no more than what differs: model, data, rate, steps and the like are those of the training.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from leaklab.records.canonical import canonical_json
from leaklab.records.errors import UserError
from leaklab.records.train_spec import TrainSpec

if TYPE_CHECKING:
    from leaklab.records.expand import PlannedRun

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
    return training.model_copy(update={"until": None if last == training.rounds else last})


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
