"""A case whose client makes the mistakes that explain what it sent."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.client import Change
from leaklab.probing.exchange import Exchange
from leaklab.probing.grids import rounded
from leaklab.probing.replay.mistake import Hypothesis, Mistake, Numbers, Setting, changed, optimizer_of, tuned

NamedChange = Callable[[Tensor, str], Tensor]
"""(values of a tensor, its name) -> values."""


def corrected(
    case: Case,
    setting: Setting,
    hypothesis: Hypothesis,
    exchange: Exchange,
    grid: str | None,
    *,
    pruned: bool = False,
    noise: float = 0.0,
) -> Case | None:
    """Return the case as it was, if a client does it; None where no client knows what was mixed into its update.

    Args:
        case: as described.
        setting: what was run under no hypothesis.
        hypothesis: what explains the rest.
        exchange: what was sent, read as what it is.
        grid: that it was rounded to; None for none.
        pruned: whether entries were set to zero: everybody sees which.
        noise: deviation of noise on top.
    """
    for mistake, numbers in hypothesis:
        if mistake.sends is None:
            continue
        if mistake.change is not None or not mistake.anywhere:
            return None
        setting = _sending(setting, mistake, numbers)
    setting = changed(setting, tuple(made for made in hypothesis if made[0].change is not None))
    if pruned:
        kept = {name: exchange.direction(name) != 0 for name in exchange.sent}
        setting = setting.of(defense=_after(setting.client.defense, _masking(setting, kept)))
    if grid is not None:
        setting = setting.of(defense=_after(setting.client.defense, lambda values, name: rounded(values, grid)))
    before = {**exchange.before, **setting.client.model.state_dict()}
    read = replace(exchange, before={name: before[name] for name in exchange.before})
    return replace(
        case, client=setting.client, exchange=read, inputs=setting.inputs, targets=setting.targets, noise=noise
    )


def _sending(setting: Setting, mistake: Mistake, numbers: Numbers) -> Setting:
    """Return the setting whose client changes what it sends; of one plain step a factor is one of the rate."""
    client = setting.client
    plain = client.optimizer is None and client.steps == 1 and client.sends != "gradient"
    if mistake.name == "factor" and plain and numbers[0] > 0:
        return tuned(setting, lr=numbers[0] * float(optimizer_of(client).param_groups[0]["lr"]))
    sends = mistake.sends
    if sends is None:
        return setting

    change = _of_moves(setting, lambda moves, _: sends(moves, numbers))
    return setting.of(defense=_after(client.defense, change))


def _masking(setting: Setting, kept: Mapping[str, Tensor]) -> NamedChange:
    """Return the change that leaves those entries that were kept."""
    return _of_moves(setting, lambda moves, name: moves * kept[name].to(moves) if name in kept else moves)


def _of_moves(setting: Setting, change: NamedChange) -> NamedChange:
    """Return a change of what is sent that changes how far a tensor moved."""
    weights, sends = setting.client.model.state_dict(), setting.client.sends

    def changed_moves(values: Tensor, name: str) -> Tensor:
        if not values.is_floating_point():
            return values
        if sends == "weights":
            start: Tensor = weights[name].to(values)
            return start + change(values - start, name)
        return change(values, name)

    return changed_moves


def _after(first: Change | None, change: NamedChange) -> Change:
    """Return a defense, then a change of every tensor by its name."""

    def both(sent: dict[str, Tensor]) -> Mapping[str, Tensor]:
        given = sent if first is None else first(sent)
        return {name: change(value, name) for name, value in given.items()}

    return both
