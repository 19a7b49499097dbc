"""What a defense does, found by experiments on simulated updates and not by its name.

Two runs on one update tell whether it draws; other draws tell whether these add noise, which is then taken off and
whose level a search is told, or only change the length of all that is sent. Larger changes of the update tell whether
its derivative is worth following: that of a sign or a rounding is zero wherever it is defined, and what goes through
numpy has none.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor

from leaklab.probing.exchange import Exchange
from leaklab.probing.inputs import listed
from leaklab.probing.searches.defended import Defended, Sender, Update, share
from leaklab.probing.searches.drawn import FEWEST_RUNS, MOST_RUNS, SAME, alike, drawn
from leaklab.probing.searches.optimizers import soft_sign
from leaklab.probing.searches.simulation import Simulation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

PATIENCE = 0.1
"""Share of the seconds at hand that the runs for noise may take."""
LEAST_RUNS = 100
"""Runs of a defense for which there must be time, or no search can know it."""
SLOW = 2.0
"""Times a simulated round that a defense may take whatever time there is."""
AWAY = 0.3
"""Change of an update by which its slope is judged, relative to the root mean square of each tensor."""
HIDDEN = 4.0
"""Mean square of what zeros stand for, relative to that of other errors, from which they are no rounding."""
NOTHING = 1e-9
"""Change relative to the update that counts as none."""
TINY, NEAR = 1e-4, 0.1
"""Part of that change by which steps are told, and relative error of what is rounded."""
FOLLOWS = 0.5
"""Share of what passing entries on tells of a change that a derivative has to tell, or it is not followed."""


def met(simulation: Simulation, exchange: Exchange, samples: tuple[Tensor, Tensor], seconds: float) -> Defended:
    """Return how a client's defense is simulated.

    Args:
        simulation: of the client without it.
        exchange: what was sent.
        samples: made-up inputs [2N, ...] and targets [2N, ...]: two rounds.
        seconds: of the search.

    Raises:
        UserError: it is not simulated; says why.
    """
    half, begun = len(samples[0]) // 2, time.perf_counter()
    first, second = (_round(simulation, *(one[at : at + half] for one in samples)) for at in (0, half))
    each = (time.perf_counter() - begun) / 2
    sender = simulation.sender(exchange)
    try:
        took = _tried(sender, first)
        if took * LEAST_RUNS > seconds and took > SLOW * each:
            raise UserError(f"it takes {took:.2g} s for each update, and a search asks for hundreds")
        length = _length(exchange, sender)
        runs = int(min(max(PATIENCE * seconds / max(took, 1e-6), FEWEST_RUNS), MOST_RUNS))
        sender.rounds = simulation.client.sends == "delta" and _only_signs_of(sender, first)
        found = drawn(sender, exchange, first, second, runs, length)
        if found.passed:
            return _worded(_shifted(found, first), first, length)
        return _worded(_followed(_shifted(found, first), first, exchange), first, length)
    except UserError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise UserError(f"it fails on a simulated update ({type(error).__name__}: {text})") from error


def _round(simulation: Simulation, inputs: Tensor, targets: Tensor) -> Update:
    moved, state = simulation.moved(inputs, targets, soft=0.0)
    return {name: one.detach() for name, one in moved.items()}, state


def _length(exchange: Exchange, sender: Sender) -> float:
    return sqrt(sum(float(exchange.direction(name).square().sum()) for name in sender.names))


def _tried(sender: Sender, update: Update) -> float:
    """Settle in which types the defense is called and whether with a derivative; return the seconds of a run."""
    wide = _attempted(sender, update)
    sender.own_types = True
    begun = time.perf_counter()
    own = _attempted(sender, update) or sender.held(*update)
    took = time.perf_counter() - begun
    sender.own_types = wide is None or not alike(wide, own)
    _attempted(sender, update)
    return took


def _attempted(sender: Sender, update: Update) -> dict[str, Tensor] | None:
    """Return what is sent; without a derivative if there is none, None if it fails either way."""
    moved = {name: one.clone().requires_grad_() for name, one in update[0].items()}
    for sender.detached in (False, True):
        try:
            sent = sender.held(moved, update[1])
        except UserError:
            raise
        except Exception:  # noqa: BLE001 - somebody else's function; what it raises is told by who calls it last
            continue
        return {name: one.detach() for name, one in sent.items()}
    return None


def _shifted(found: Defended, update: Update) -> Defended:
    """Return what is known of a defense with the length of an update and what is sent of none."""
    moved, state = update
    with torch.no_grad():
        none = found.known({name: torch.zeros_like(one) for name, one in moved.items()}, state)
    shift = none if all(bool(one.isfinite().all()) for one in none.values()) else {}
    return replace(found, shift=shift, length=sqrt(sum(float(one.square().sum()) for one in moved.values())))


def _followed(found: Defended, update: Update, exchange: Exchange) -> Defended:
    """Return what is known of a defense with the tensors whose own derivative is not worth following."""
    moved = {name: one.clone().requires_grad_() for name, one in update[0].items()}
    way = {name: AWAY * _size(one) * _normal(name, one) for name, one in update[0].items()}
    with torch.enable_grad():
        sent = found.known(moved, update[1])
    with torch.no_grad():
        further = found.known({name: one + way[name] for name, one in update[0].items()}, update[1])
    straight = {name for name, one in sent.items() if _straight(found, name, one, moved, way, further[name])}
    signs = {name for name in straight if _only_signs(sent[name].detach())}
    if signs:  # a few entries may all keep their sign
        signs |= {name for name, one in sent.items() if _only_signs(one.detach())}
        straight |= signs
    found = replace(found, straight=frozenset(straight), signs=frozenset(signs))
    found = replace(found, straight=found.straight | _in_steps(found, update, moved, way, sent))
    return _with_zeros(found, update[0], sent, exchange)


def _with_zeros(
    found: Defended, moved: Mapping[str, Tensor], sent: Mapping[str, Tensor], exchange: Exchange
) -> Defended:
    """Return what is known of a defense with the tensors whose zeros hide more than rounding would."""
    kept = {}
    for name, one in sent.items():
        plain, like = one.detach(), soft_sign(moved[name]) if name in found.signs else moved[name]
        gone = (plain == 0) & (like != 0)
        if not bool(gone.any()) or bool(gone.all()) or not bool(plain.any()):
            continue
        far = (plain - share(plain, like * ~gone) * like).square()
        hidden = float(far[gone].mean()) > HIDDEN * float(far[~gone].mean())
        near = name in found.straight or float(far[~gone].sum()) < NEAR**2 * float(plain.square().sum())
        if hidden and near:
            kept[name] = (exchange.direction(name) != 0).to(plain)
    if kept:  # of a small tensor nothing may be kept by chance
        empty = [name for name, one in sent.items() if not bool(one.any()) and bool(moved[name].any())]
        kept |= {name: (exchange.direction(name) != 0).to(moved[name]) for name in empty}
    return replace(found, kept=kept, straight=found.straight | kept.keys())


def _straight(
    found: Defended, name: str, sent: Tensor, moved: Mapping[str, Tensor], way: Mapping[str, Tensor], further: Tensor
) -> bool:
    """Tell whether a tensor's derivative tells much less of a large change than passing its entries on."""
    plain = sent.detach()
    change = further - plain
    if float(change.norm()) <= NOTHING * _size(moved[name].detach()) * sqrt(change.numel()):
        return False  # dropped, or the same whatever is trained
    along = share(plain - found.shift.get(name, 0.0), moved[name].detach())
    passed = float((change * (plain != 0) * way[name]).sum()) * along
    return not sent.requires_grad or _told(sent, moved, way, change) < FOLLOWS * passed


def _in_steps(
    found: Defended,
    update: Update,
    moved: Mapping[str, Tensor],
    way: Mapping[str, Tensor],
    sent: Mapping[str, Tensor],
) -> set[str]:
    """Return the tensors that change in steps whatever their derivative says, e.g. rounded by a cast.

    A small tensor may show no step by chance: it is judged with the others.
    """
    small = {name: TINY * one for name, one in way.items()}
    with torch.no_grad():
        further = found.known({name: one + small[name] for name, one in update[0].items()}, update[1])
    near, told, size = set(), 0.0, 0.0
    for name, one in sent.items():
        plain = one.detach()
        if name in found.straight or not one.requires_grad or not bool(plain.any()):
            continue
        unit = _size(plain - found.shift.get(name, 0.0)) or 1.0
        change = (further[name] - plain) / unit
        told += _told(one, moved, small, change) / unit
        size += float(change.square().sum())
        passed = replace(found, straight=frozenset({name})).sloped(name, plain, update[0][name])
        if float((passed - plain).norm()) < NEAR * unit * sqrt(plain.numel()):
            near.add(name)
    return near if told < FOLLOWS * size else set()


def _told(sent: Tensor, moved: Mapping[str, Tensor], way: Mapping[str, Tensor], change: Tensor) -> float:
    """Return how much of a change its own derivative tells of a tensor along a way, as their inner product."""
    if not sent.requires_grad:
        return 0.0
    slopes = torch.autograd.grad(sent, list(moved.values()), change, retain_graph=True, allow_unused=True)
    return sum(float((one * way[name]).sum()) for name, one in zip(moved, slopes, strict=True) if one is not None)


def _worded(found: Defended, update: Update, length: float) -> Defended:
    """Return what is known of a defense with what stays unknown of each entry, and with words."""
    said = ["the client's defense is applied to what is simulated"]
    unknown = {name: found.deviations.get(name, 0.0) ** 2 for name in found.sender.names}
    if found.straight:
        with torch.no_grad():
            sent = found.known(*update)
        for name in found.straight:
            unknown[name] += _size(sent[name] - found.sloped(name, sent[name], update[0][name], own=True)) ** 2
        said += _slopes(found)
    if found.added:
        sizes = [found.deviations[name] ** 2 * update[0][name].numel() for name in found.sender.names]
        noise = sqrt(sum(sizes)) / length
        said.append(
            f"of its noise, {noise:.2g} of the length of what was sent, searches know the size and not the draw"
        )
    elif found.scale_free:
        said.append("up to the factor that it draws")
    deviations = {name: sqrt(one) for name, one in unknown.items()} if any(unknown.values()) else {}
    return replace(found, deviations=deviations, drawn=found.deviations, words="; ".join(said))


def _slopes(found: Defended) -> Iterator[str]:
    """Yield where a slope is not the defense's own."""
    passed = found.straight - found.signs - found.kept.keys()
    if passed:
        yield f"{listed(sorted(passed))} with the slope of entries that are passed on, as its own says nothing"
    if found.signs:
        yield f"{listed(sorted(found.signs))} with softened signs, as signs have no slope"
    if found.kept:
        yield f"{listed(sorted(found.kept))} at the entries that were sent"


def _size(value: Tensor) -> float:
    return float(value.square().mean().sqrt()) if value.numel() else 0.0


def _normal(name: str, like: Tensor) -> Tensor:
    return stream(0, "defense", name).normal(*like.shape).to(like)


def _only_signs_of(sender: Sender, update: Update) -> bool:
    """Tell whether nothing but signs are left, so that it counts which entries the rounding of weights swallows."""
    with torch.no_grad():
        return any(_only_signs(one) for one in sender.held(*update).values() if one.numel() > 1)


def _only_signs(sent: Tensor) -> bool:
    sizes = sent[sent != 0].abs()
    return bool(len(sizes)) and float(sizes.amax()) <= (1 + SAME) * float(sizes.amin())
