"""What becomes of a gradient: a map that is the same in every draw, or one that is drawn anew, by what was sent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leaklab.guests.laboratory import ALIKE, SIZES, Sent, Update, norm, plus, relative, rms, times
from leaklab.records import tensor_algebra

FLAT = 0.02
"""Relative difference of lengths that are called equal."""
FEW, MANY = 64, 1000
"""Entries below which a tensor tells nothing of shares, and nothing of levels."""
STRAIGHT = 1e-9
"""1 - cos of what points the same way."""
REPEATS = 16
"""Draws of one gradient."""


@dataclass(frozen=True)
class Fact:
    """Something that a defense does.

    Attributes:
        name: a word for programs.
        value: its numbers.
        text: for people.
        seen: the experiment behind it.
    """

    name: str
    value: Any
    text: str
    seen: str


def of_map(apply: Callable[[Update], Update], lab: Sent, sized: Callable[[float], Update | None]) -> list[Fact]:
    """Return what such a map does.

    Args:
        apply: the map.
        lab: gives gradients.
        sized: the map of the first gradient times a number; None where it fails.
    """
    facts: list[Fact] = []
    lengths = {size: norm(found) for size in SIZES if (found := sized(size)) is not None}
    size = 1.0
    if length := _length(lengths, sized, lab):
        facts.append(length)
        size = 1.0 if length.name == "forgets length" else min(lengths)
    homogeneous = times(apply(times(lab.a, size)), 1 / size)
    does = kept(lab.a, homogeneous, lab)
    # what has lost its length has a factor, and signs alone are levels, but these say nothing more
    facts += [fact for fact in does if size != 1.0 or length is None or fact.name not in ("factor", "levels")]
    if any(fact.name == "zeros" for fact in facts):
        facts = [chosen(fact, apply, lab, size) if fact.name == "zeros" else fact for fact in facts]
    other = times(apply(times(lab.b, size)), 1 / size)
    both = times(apply(times(plus(lab.a, lab.b), size)), 1 / size)
    if length is None and relative(both, plus(homogeneous, other)) <= 100 * ALIKE:
        facts.append(Fact("linear", True, "is linear in the gradient", "the sum of two gradients"))
    return facts


def _length(lengths: dict[float, float], sized: Callable[[float], Update | None], lab: Sent) -> Fact | None:
    """Return what becomes of the length: clipped, or forgotten."""
    sizes = sorted(lengths)
    if len(sizes) < len(SIZES):
        return None
    low, high = sizes[:2], sizes[-2:]

    def flat(pair: list[float]) -> bool:
        return abs(lengths[pair[0]] - lengths[pair[1]]) <= FLAT * lengths[pair[1]]

    if not flat(high):
        return None
    largest = sized(high[1])
    assert largest is not None
    scope, bound = _scope(largest, lab)
    seen = "one gradient times 1e-6 to 1e6"
    if flat(low):
        text = {"entry": "keeps the sign of each entry alone", "tensor": "forgets the length of each tensor"}
        said = text.get(scope, "forgets the length of the gradient")
        return Fact("forgets length", {"scope": scope, "length": bound}, said, seen)
    small = abs(lengths[low[1]] / lengths[low[0]] / (low[1] / low[0]) - 1) <= FLAT
    if not small:
        return None
    what = {"entry": "each entry", "tensor": "each tensor"}.get(scope, "the gradient")
    return Fact("clips", {"scope": scope, "bound": bound}, f"clips {what} to {bound:.4g}", seen)


def _scope(largest: Update, lab: Sent) -> tuple[str, float]:
    """Return of what a bound holds, and the bound: of each entry, each tensor, or the whole."""
    live = torch.cat([value.flatten() for value in largest.values()]).abs()
    live = live[live > 0]
    if len(live) and float(live.max() - live.median()) <= 1e-6 * float(live.max()) and len(live) > FEW:
        return "entry", float(live.max())
    factors = [_factor(value, lab.a[name]) for name, value in largest.items() if rms(value)]
    sizes = [norm({name: value}) for name, value in largest.items() if rms(value)]
    if len(sizes) > 1 and max(sizes) - min(sizes) <= FLAT * max(sizes) and max(factors) > 1.1 * min(factors):
        return "tensor", max(sizes)
    return "whole", norm(largest)


def _factor(value: Tensor, like: Tensor) -> float:
    """Return the s that minimises |value - s like|."""
    return float((value * like).sum() / (like * like).sum())


def _straight(value: Tensor, like: Tensor) -> bool:
    """Whether a tensor is another one but for a factor."""
    left = value - _factor(value, like) * like
    return rms(left) <= (2 * STRAIGHT) ** 0.5 * rms(value) and rms(value) > 0


def kept(given: Update, found: Update, lab: Sent, near: float = ALIKE) -> list[Fact]:
    """Return how an update differs from the gradient: a factor, zeros, levels, a mixture, its rank."""
    seen = "one dense gradient"
    if all(_straight(value, given[name]) for name, value in found.items()):
        factors = {name: _factor(value, given[name]) for name, value in found.items()}
        return _factors([factors], seen)
    if levels := levels_of(found, random=False):
        return levels
    shares = {name: float((value == 0).double().mean()) for name, value in found.items() if value.numel() >= FEW}
    if any(share > 0 for share in shares.values()):
        return [_zeros(given, found, shares, near)]
    return _mixed(given, found, secret=False) or _rank(found)


def _factors(draws: list[dict[str, float]], seen: str) -> list[Fact]:
    """Return the factor that a gradient is multiplied by, in each tensor and draw; none where it is 1."""
    every = [value for draw in draws for value in draw.values()]
    low, high = min(every), max(every)
    if max(abs(low - 1), abs(high - 1)) <= ALIKE:
        return []
    one = all(max(draw.values()) - min(draw.values()) <= 1e-6 * max(map(abs, draw.values())) for draw in draws)
    value: dict[str, Any] = {"scope": "one" if one else "tensor", "low": low, "high": high}
    if not one:
        value["factors"] = draws[0]
    if len(draws) == 1 and one:
        text = "turns the sign round" if abs(low + 1) <= ALIKE else f"multiplies the gradient by {low:.4g}"
    else:
        where = "the gradient" if one else "each tensor"
        text = f"multiplies {where} by {low:.3g} to {high:.3g}" + (", drawn anew" if len(draws) > 1 else "")
    return [Fact("factor", value, text, seen)]


def _zeros(given: Update, found: Update, shares: dict[str, float], near: float = ALIKE) -> Fact:
    live = [(value != 0) for value in found.values()]
    pairs = [(value[keep], given[name][keep]) for (name, value), keep in zip(found.items(), live, strict=True)]
    ratio = torch.cat([(one / other).flatten() for one, other in pairs])
    scale = float(ratio.median()) if len(ratio) else 1.0
    same = len(ratio) == 0 or float((ratio - scale).abs().quantile(0.99)) <= near * abs(scale)
    rest = "changed" if not same else "exact" if abs(scale - 1) <= near else scale
    total = sum(value.numel() for value in found.values())
    share = sum(float((value == 0).sum()) for value in found.values()) / total
    value: dict[str, Any] = {"share": share, "shares": shares, "rest": rest}
    said = {"exact": "leaves the rest as it is", "changed": "changes the rest"}
    after = said[rest] if isinstance(rest, str) else f"multiplies the rest by {rest:.4g}"
    return Fact("zeros", value, f"sets {100 * share:.3g} % of the entries to zero and {after}", "one dense gradient")


def chosen(fact: Fact, apply: Callable[[Update], Update], lab: Sent, size: float) -> Fact:
    """Return the fact about zeros with how they are chosen, where that can be told."""
    found, other = (times(apply(times(one, size)), 1 / size) for one in (lab.a, lab.b))
    how = "otherwise"
    masks = [{name: value == 0 for name, value in one.items()} for one in (found, other)]
    sizes = {name: lab.a[name].abs() for name in found}
    if all(torch.equal(masks[0][name], masks[1][name]) for name in found):
        how = "fixed"
        columns = [_in_columns(mask) for mask in masks[0].values() if bool(mask.any()) and not bool(mask.all())]
        how = "fixed columns" if columns and all(columns) else how
    elif below(torch.cat([sizes[name][masks[0][name]] for name in found]),
                torch.cat([sizes[name][~masks[0][name]] for name in found])):  # fmt: skip
        how = "smallest of all"
    elif all(below(sizes[name][masks[0][name]], sizes[name][~masks[0][name]]) for name in found):
        how = "smallest of each tensor"
    words = {"fixed": "the same ones in every gradient", "fixed columns": "the same columns in every gradient"}
    said = f"{fact.text}; chosen: {words.get(how, how)}" if how != "otherwise" else fact.text
    return Fact("zeros", {**fact.value, "chosen": how}, said, "two dense gradients")


def below(dropped: Tensor, kept: Tensor) -> bool:
    """Tell whether no entry that was dropped is larger than one that was kept."""
    return not len(dropped) or not len(kept) or float(dropped.max()) <= float(kept.min())


def _in_columns(mask: Tensor) -> bool:
    """Whether a mask is made of whole columns of a matrix."""
    if mask.dim() < 2:
        return False
    flat = mask.flatten(1)
    return bool((flat == flat[:1]).all())


def levels_of(found: Update, *, random: bool) -> list[Fact]:
    """Return that entries lie on a grid, where most of them are repeated."""
    counts = {}
    for name, value in found.items():
        if value.numel() >= MANY:
            live = value[value != 0]
            steps = torch.unique(torch.round(live.double() / max(rms(live), 1e-300) * 1e9))
            counts[name] = (len(steps), len(live))
    if not counts or any(2 * distinct >= live for distinct, live in counts.values() if live):
        return []
    most = max(distinct for distinct, _ in counts.values())
    how = "at random" if random else "to the nearest"
    told = {"most": most, "rounding": "random" if random else "nearest"}
    return [Fact("levels", told, f"rounds entries {how} of at most {most} values in a tensor", "one dense gradient")]


def _mixed(given: Update, found: Update, *, secret: bool) -> list[Fact]:
    """Return that entries are moved or rows are mixed, by what stays."""
    matrices = [name for name, value in found.items() if value.dim() >= 2]
    pairs = [(given[name].flatten(1), found[name].flatten(1)) for name in matrices]
    tests: dict[str, Callable[[Tensor, Tensor], bool]] = {
        "sizes": lambda one, other: _near(one.abs().flatten().sort().values, other.abs().flatten().sort().values),
        "row products": lambda one, other: _near(one.T @ one, other.T @ other),
        "column products": lambda one, other: _near(one @ one.T, other @ other.T),
        "length": lambda one, other: _near(one.norm(), other.norm()),
    }
    stays = [name for name, test in tests.items() if pairs and all(test(*pair) for pair in pairs)]
    if not stays:
        return []
    texts = {
        "sizes": "moves entries or turns their signs",
        "row products": "rotates the rows of each matrix",
        "column products": "rotates the columns of each matrix",
        "length": "turns each matrix, as long as it was",
    }
    text = f"{texts[stays[0]]}, " + ("anew in every update" if secret else "always in the same way")
    seen = f"{stays[0]} of one dense gradient stay"
    return [Fact("mixes", {"kept": stays[0], "secret": secret}, text, seen)]


def _near(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= 1e-6 * float(one.abs().max())


def _rank(found: Update) -> list[Fact]:
    ranks = {}
    for name, value in found.items():
        if value.dim() >= 2:
            flat = value.flatten(1).double()
            ranks[name] = (tensor_algebra.rank(flat, 1e-8), min(flat.shape))
    if not ranks or not any(rank < full for rank, full in ranks.values()):
        return []
    most = max(rank for rank, full in ranks.values() if rank < full)
    return [Fact("rank", {"most": most}, f"lowers the rank of matrices to {most}", "one dense gradient of full rank")]


# A map that is drawn anew.


def of_draws(lab: Sent) -> list[Fact]:
    """Return what draws do to a gradient, noise that is added aside."""
    draws = [lab.out(lab.a, draw) for draw in range(REPEATS)]
    seen = "16 draws of one dense gradient"
    if all(_straight(value, lab.a[name]) for one in draws for name, value in one.items()):
        return _factors([{name: _factor(value, lab.a[name]) for name, value in one.items()} for one in draws], seen)
    levels = [levels_of(one, random=True) for one in draws]
    if all(levels):
        return levels[0]
    shares = [{n: float((v == 0).double().mean()) for n, v in one.items() if v.numel() >= FEW} for one in draws]
    if all(any(share > 0 for share in one.values()) for one in shares):
        fact = _zeros(lab.a, draws[0], shares[0])
        return [Fact("zeros", {**fact.value, "chosen": "anew"}, f"{fact.text}; drawn anew", seen)]
    mixed = [_mixed(lab.a, one, secret=True) for one in draws]
    if all(mixed):
        return mixed[0]
    return _grows(draws, lab.a, seen)


def _grows(draws: list[Update], given: Update, seen: str) -> list[Fact]:
    """Return that noise is larger where the gradient is, if it is."""
    stacked = {name: torch.stack([one[name] for one in draws]).double() for name in given}
    sizes = torch.cat([given[name].abs().flatten() for name in given])
    spread = torch.cat([stacked[name].std(0).flatten() for name in given])
    live = (sizes > 0) & (spread > 0)
    if int(live.sum()) < FEW:
        return []
    x, y = sizes[live].log(), spread[live].log()
    x, y = x - x.mean(), y - y.mean()
    power = float((x * y).sum() / (x * x).sum())
    explained = float((x * y).sum() ** 2 / ((x * x).sum() * (y * y).sum()))
    if explained < 0.9 or abs(power - 1) > 0.1:
        return []
    factor = float((spread[live] / sizes[live]).median())
    text = f"changes each entry by a random share of itself, about {factor:.2g}"
    return [Fact("noise of the entry", {"share": factor}, text, seen)]
