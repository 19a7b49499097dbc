"""Mistakes about what is sent of a round, and about the weights that it began with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor

from leaklab.probing.replay.mistake import Mistake, Numbers, Setting, holding, simple


def sent_mistakes(setting: Setting, others: Mapping[str, Tensor], signs: float) -> Iterator[Mistake]:
    """Yield what may be done to an update before it is sent.

    Args:
        setting: as described.
        others: by name, the weights before the round minus those of another state, flat.
        signs: mean size of what was sent.
    """
    yield Mistake("sign", "the opposite sign", None, lambda flat, _: -flat, groups=frozenset({"share"}))
    yield Mistake(
        "factor",
        "a factor of {:.4g}",
        None,
        lambda flat, numbers: numbers[0] * flat,
        ((1.0,),),
        -torch.inf,
        groups=frozenset({"share"}),
    )
    yield Mistake(
        "signs",
        "only the signs, each of size {:.4g}",
        None,
        lambda flat, numbers: numbers[0] * flat.sign(),
        ((signs,),),
        groups=frozenset({"share", "optimizer", "rate", "clip"}),
    )
    share = frozenset({"share", "steps", "rate"})
    if setting.client.sends == "gradient":
        told = "the difference of the weights, not the gradient"
        yield Mistake("sends", told, _as_difference, lambda flat, _: -flat, groups=share, anywhere=False)
    elif setting.client.sends == "delta":
        told = "the gradient of the first step, not the difference of the weights"
        yield Mistake("sends", told, _as_gradient, lambda flat, _: -flat, groups=share, anywhere=False)
    yield from _states(others)


def _as_difference(setting: Setting, numbers: Numbers) -> Setting:
    return setting.of(sends="delta")


def _as_gradient(setting: Setting, numbers: Numbers) -> Setting:
    return setting.of(sends="gradient", steps=1)


def _states(others: Mapping[str, Tensor]) -> Iterator[Mistake]:
    """Yield differences to other states, and means with them."""
    share = frozenset({"share", "weights"})
    for name, way in others.items():
        says = f"the difference to the weights of {name}, not to those before the round"
        yield Mistake("difference", says, None, _mean([way], (1.0, -1.0)), groups=share, anywhere=False)
        says = f"the mean with {name}: {{:.4g}} of this client, {{:.4g}} of that"
        yield Mistake("averaged", says, None, _mean([way]), ((0.5, 0.5),), groups=share, anywhere=False)
    if len(others) > 1:
        ways = list(others.values())
        says = "the mean with other states: {:.4g} of this client, " + ", ".join(f"{{:.4g}} of {n}" for n in others)
        start = (1 / (len(ways) + 1),) * (len(ways) + 1)
        yield Mistake("averaged", says, None, _mean(ways), (start,), groups=share, anywhere=False)


def _mean(ways: Sequence[Tensor], fixed: Numbers = ()) -> Callable[[Tensor, Numbers], Tensor]:
    def mean(flat: Tensor, numbers: Numbers) -> Tensor:
        own, *shares = fixed or numbers
        total = own * flat
        for share, way in zip(shares, ways, strict=True):
            total = total + share * way
        return total

    return mean


def weight_mistakes(others: Mapping[str, Mapping[str, Tensor]]) -> Iterator[Mistake]:
    """Yield that the round began with another state than the exchange says, or left tensors as they were."""
    for name, state in others.items():
        yield simple("weights", f"the weights of {name}", partial(_begun, state=state), "weights")


def _begun(setting: Setting, state: Mapping[str, Tensor]) -> Setting:
    return setting.of(model=holding(setting.client.model, state))


def freezing(names: Sequence[str]) -> Mistake:
    """Return that some parameters were not trained."""
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
    return simple("frozen", f"{shown} frozen", partial(_trained, names=names, trained=False), "frozen")


def thawing(names: Sequence[str]) -> Mistake:
    """Return that some parameters were trained though described as frozen."""
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
    return simple("thawed", f"{shown} trained", partial(_trained, names=names, trained=True), "frozen")


def _trained(setting: Setting, names: Sequence[str], trained: bool) -> Setting:
    model = deepcopy(setting.client.model)
    for name, value in model.named_parameters():
        if name in names:
            value.requires_grad_(trained)
    return setting.of(model=model)
