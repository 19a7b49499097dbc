"""What a guest's defense does, found by experiments alone; each fact with the experiment behind it.

A wrong fact is worse than none: attackers are chosen by these. So each rests on calls that would have come out
differently if it did not hold, and what fits no fact is not described.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, overrides
from leaklab.guests.calls import Subject
from leaklab.guests.laboratory import (
    ALIKE,
    Laboratory,
    Update,
    alike,
    minus,
    norm,
    plus,
    relative,
    rms,
    times,
)
from leaklab.guests.moments import NETWORKS

SIZES = (1e-6, 1e-5, 1.0, 1e5, 1e6)
FLAT = 0.02
"""Relative difference of lengths that are called equal."""
FEW, MANY = 64, 1000
"""Entries below which a tensor tells nothing of shares, and nothing of levels."""
STRAIGHT = 1e-9
"""1 - cos of what points the same way."""
NORMAL, LAPLACE, UNIFORM = (2.65, 3.35), (4.5, 7.5), (1.6, 2.0)
"""Where the kurtosis of some thousand draws of a law lies."""
KNOWS = {"image": "the images", "label": "the labels", "weights": "the weights", "rate": "the learning rate"}


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


def described(file: Path, phase: Callable[[str], None], sha256: str = "") -> dict[str, list[dict[str, Any]]]:
    """Return the facts of a guest's defense on each network; a task of a child.

    Raises:
        UserError: it cannot be called.
    """
    phase("it was imported")
    subject = Subject.load(file, sha256)
    found = {}
    for network in NETWORKS:
        phase(f"it was described on the {network}")
        found[network] = [asdict(fact) for fact in describe(Laboratory(subject, network))]
    subject.unchanged()
    return found


def describe(laboratory: Laboratory) -> list[Fact]:
    """Return the facts of a defense on one network, the coarse ones first."""
    facts: list[Fact] = []
    together, alone = laboratory.rounds([laboratory.a, laboratory.b, laboratory.a])
    if not all(alike(one, other) for one, other in zip(together, alone, strict=True)):
        laboratory.subject.everywhere_fresh = True
        facts.append(_memory(laboratory, together))
    hidden = [name for name in laboratory.a if name not in alone[0]]
    if hidden:
        facts.append(Fact("hidden", hidden, f"keeps {', '.join(hidden)} to itself", "names that are not sent"))
    changed = laboratory.changed_by()
    lab = _Seen(laboratory, hidden, next((name for name in ("draw", "client", "round") if changed[name]), ""))
    facts += _randomness(changed)
    facts += _counts(laboratory)
    if looks := [name for name in KNOWS if changed[name]]:
        told = " and ".join(KNOWS[name] for name in looks)
        facts.append(Fact("looks at", looks, f"looks at {told}", "another one, with the same gradient and draws"))
    if alike(lab.out(lab.a), lab.out(lab.b)):
        said = "what it sends does not depend on the gradient that it is given"
        return [*facts, Fact("ignores the gradient", True, said, "two gradients give one update")]
    if not facts and lab.is_nothing():
        return [Fact("nothing", True, "does nothing", "dense and real gradients of five sizes come back as they are")]
    return [*facts, *_of_gradient(lab, bool(lab.varied))]


def _memory(laboratory: Laboratory, together: list[Update]) -> Fact:
    """Return what the second round tells of the first."""
    left = minus(laboratory.a, together[0])
    again = laboratory.out(plus(laboratory.b, left), round=1)
    seen = "three rounds of one client, beside rounds of new clients"
    if alike(again, together[1]):
        return Fact("memory", "error feedback", "adds what it left out to the gradient of the next round", seen)
    return Fact("memory", "other", "remembers earlier rounds", seen)


def _counts(laboratory: Laboratory) -> list[Fact]:
    """Return that a client does another number of steps, or takes another number of samples, than it was told."""
    defense, facts = laboratory.subject.new(), []
    for hook, nominal, what in (("local_steps", 4, "steps"), ("batch_size", 8, "samples")):
        if overrides(defense, hook):
            contexts = [ClientContext(1.0, 0, client) for client in range(64)]
            counts = [int(getattr(laboratory.subject.new(), hook)(nominal, context)) for context in contexts]
            if set(counts) != {nominal}:
                low, high = min(counts), max(counts)
                text = f"takes {low} to {high} {what} where it was told {nominal}"
                facts.append(Fact(what, {"told": nominal, "low": low, "high": high}, text, "64 clients"))
    return facts


def _randomness(changed: dict[str, bool]) -> list[Fact]:
    seen = "16 repetitions, other clients and other rounds, with the same gradient"
    if changed["draw"]:
        return [Fact("random", "anew", "draws anew in every update", seen)]
    if keys := [name for name in ("client", "round") if changed[name]]:
        return [Fact("random", keys, f"is another one for each {' and '.join(keys)}", seen)]
    return []


class _Seen:
    """A laboratory in which only what is sent is compared, and a draw is whatever makes updates differ.

    Attributes:
        varied: ``draw``, or ``client`` or ``round`` where these alone make another update; empty where nothing does.
    """

    def __init__(self, laboratory: Laboratory, hidden: list[str], varied: str) -> None:
        self.laboratory, self.hidden, self.varied = laboratory, hidden, varied
        self.a, self.b, self.zero, self.real = map(
            self._sent, (laboratory.a, laboratory.b, laboratory.zero, laboratory.real)
        )

    def _sent(self, update: Update) -> Update:
        return {name: value for name, value in update.items() if name not in self.hidden}

    def whole(self, update: Update) -> Update:
        """Return a gradient with zero in the parts that are hidden."""
        return {name: update.get(name, torch.zeros_like(value)) for name, value in self.laboratory.a.items()}

    def out(self, update: Update, draw: int = 0) -> Update:
        return self.laboratory.out(self.whole(update), **{self.varied or "draw": draw})

    def tried(self, update: Update, draw: int = 0) -> Update | None:
        return self.laboratory.tried(self.whole(update), **{self.varied or "draw": draw})

    def is_nothing(self) -> bool:
        fed = [times(one, size) for one in (self.a, self.b) for size in SIZES] + [self.real]
        whole = [self.whole(one) for one in (self.a, self.b, self.a)]
        mean = times(plus(plus(self.a, self.b), self.a), 1 / 3)
        return all(alike(self.out(one), one) for one in fed) and alike(self.laboratory.in_steps(whole), mean)


def _of_gradient(lab: _Seen, random: bool) -> list[Fact]:
    """Return what happens to the gradient itself."""
    zeros = [lab.tried(lab.zero, draw) for draw in range(16 if random else 1)]
    facts: list[Fact] = []
    offsets = [one for one in zeros if one is not None]
    whole = len(offsets) == len(zeros)
    if not whole:
        facts.append(Fact("fails on zero", True, "fails, or is not finite, on a gradient of zero", "a gradient of zero"))
    base: Callable[[int], Update] = (lambda draw: offsets[draw]) if whole else (lambda draw: lab.zero)
    additive = not random or (whole and _adds(lab, base))
    if whole and random and additive and any(norm(one) for one in offsets):
        facts.append(_noise(offsets, lab))
    elif whole and not random and norm(offsets[0]):
        names = [name for name, value in offsets[0].items() if rms(value)]
        facts.append(Fact("offset", names, f"adds something fixed to {_listed(names, lab)}", "a gradient of zero"))
    if additive:
        return [*facts, *_fixed(lambda update: minus(lab.out(update), base(0)), lab, lambda size: _at(lab, base, size))]
    if placed := _placed(lab):
        return [*facts, *placed]
    if whole and any(norm(one) for one in offsets):
        text = "adds noise, and what it draws depends on the gradient"
        return [*facts, Fact("noise with more", True, text, "16 draws of a gradient of zero, and of another one")]
    return [*facts, *_drawn(lab)]


def _placed(lab: _Seen) -> list[Fact]:
    """Return noise whose place, and not its size, depends on the gradient, and what becomes of the gradient under it.

    The difference of two draws is then the same of a gradient that is a thousand times as long.
    """
    pairs = [[lab.out(times(lab.a, size), draw) for draw in (0, 1)] for size in (1.0, 1e3)]
    short, long = (minus(one, other) for one, other in pairs)
    if not norm(short) or norm(minus(long, short)) > 1e-4 * norm(short):
        return []
    drawn = {name: torch.stack([lab.out(lab.a, draw)[name] for draw in range(16)]).double() for name in lab.a}
    left = {name: (value - value.mean(0)) * (16 / 15) ** 0.5 for name, value in drawn.items()}
    live = {name: value.std(0) > 0 for name, value in left.items()}
    sigmas = {name: float(left[name][:, mask].pow(2).mean().sqrt()) for name, mask in live.items() if bool(mask.any())}
    scaled = torch.cat([(left[name][:, live[name]] / sigma).flatten() for name, sigma in sigmas.items()])
    law = _law(scaled)
    share = sum(int(mask.sum()) for mask in live.values()) / sum(mask.numel() for mask in live.values())
    sizes = {name: value.abs() for name, value in lab.a.items()}
    largest = all(_below(sizes[name][~mask], sizes[name][mask]) for name, mask in live.items())
    where = "the largest entries of each tensor" if largest else "some entries"
    value = {"law": law, "sigma": sigmas, "share": share, "chosen": "largest of each tensor" if largest else "otherwise"}
    text = f"adds {law} noise to {where}, {100 * share:.3g} % of all"
    size = 1e9 * max(sigmas.values()) / min(rms(one) for one in lab.a.values())

    def without(update: Update) -> Update:
        found = times(lab.out(times(update, size)), 1 / size)
        return {name: torch.where(one.abs() > 1e-7 * rms(update[name]), one, 0.0) for name, one in found.items()}

    facts = [Fact("noise", value, text, "16 draws of one gradient, and of one a thousand times as long")]
    kept = _kept(lab.a, without(lab.a), lab, 1e-5)
    return [*facts, *(_chosen(fact, without, lab, 1.0) if fact.name == "zeros" else fact for fact in kept)]


def _at(lab: _Seen, base: Callable[[int], Update], size: float) -> Update | None:
    found = lab.tried(times(lab.a, size))
    return None if found is None else minus(found, base(0))


def _adds(lab: _Seen, base: Callable[[int], Update]) -> bool:
    """Whether the difference from what is sent of a zero gradient is the same in every draw."""
    first = minus(lab.out(lab.a, 0), base(0))
    scale = max(norm(lab.a), norm(base(0)))
    others = (minus(lab.out(lab.a, draw), base(draw)) for draw in range(1, 8))
    return all(norm(minus(other, first)) <= ALIKE * scale for other in others)


def _noise(offsets: list[Update], lab: _Seen) -> Fact:
    flat = torch.stack([torch.cat([value.flatten() for value in one.values()]) for one in offsets]).double()
    values = torch.linalg.svdvals(flat)
    if float(values[1]) <= 1e-6 * float(values[0]):
        names = [name for name, value in offsets[0].items() if rms(value)]
        text = f"adds a random multiple of something fixed to {_listed(names, lab)}"
        return Fact("offset", names, text, "16 draws of a gradient of zero are multiples of one another")
    drawn = {name: torch.stack([one[name] for one in offsets]).double() for name in offsets[0]}
    sigmas = {name: float(value.pow(2).mean().sqrt()) for name, value in drawn.items()}
    live = [name for name, sigma in sigmas.items() if sigma]
    scaled = torch.cat([(drawn[name] / sigmas[name]).flatten() for name in live])
    law = _law(scaled)
    entries = {name: drawn[name].numel() for name in live}
    mean = (sum(entries[name] * sigmas[name] ** 2 for name in live) / sum(entries.values())) ** 0.5
    room = 10 if law == "Laplace" else 5
    equal = all(abs(sigmas[name] / mean - 1) <= room / (2 * entries[name]) ** 0.5 + 0.01 for name in live)
    value = {"law": law, "sigma": mean if equal else {name: sigmas[name] for name in live}, "tensors": live}
    size = f"{mean:.3g}" if equal else "another one in each tensor"
    text = f"adds {law} noise of standard deviation {size} to {_listed(live, lab)}"
    return Fact("noise", value, text, "16 draws of a gradient of zero; of another one they differ by the gradient alone")


def _law(scaled: Tensor) -> str:
    """Return the law of draws of variance 1, by their kurtosis."""
    kurtosis = float(scaled.pow(4).mean())
    ranges = {"normal": NORMAL, "Laplace": LAPLACE, "uniform": UNIFORM}
    return next((name for name, (low, high) in ranges.items() if low <= kurtosis <= high), "other")


def _listed(names: list[str], lab: _Seen) -> str:
    if len(names) == len(lab.a):
        return "all tensors"
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} of {len(lab.a)} tensors"


# A map of the gradient that is the same in every draw, noise aside.


def _fixed(apply: Callable[[Update], Update], lab: _Seen, sized: Callable[[float], Update | None]) -> list[Fact]:
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
    kept = _kept(lab.a, homogeneous, lab)
    # what has lost its length has a factor, and signs alone are levels, but these say nothing more
    facts += [fact for fact in kept if size != 1.0 or length is None or fact.name not in ("factor", "levels")]
    if any(fact.name == "zeros" for fact in facts):
        facts = [_chosen(fact, apply, lab, size) if fact.name == "zeros" else fact for fact in facts]
    other = times(apply(times(lab.b, size)), 1 / size)
    both = times(apply(times(plus(lab.a, lab.b), size)), 1 / size)
    if length is None and relative(both, plus(homogeneous, other)) <= 100 * ALIKE:
        facts.append(Fact("linear", True, "is linear in the gradient", "the sum of two gradients"))
    return facts


def _length(lengths: dict[float, float], sized: Callable[[float], Update | None], lab: _Seen) -> Fact | None:
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


def _scope(largest: Update, lab: _Seen) -> tuple[str, float]:
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


def _kept(given: Update, found: Update, lab: _Seen, near: float = ALIKE) -> list[Fact]:
    """Return how an update differs from the gradient: a factor, zeros, levels, a mixture, its rank."""
    seen = "one dense gradient"
    if all(_straight(value, given[name]) for name, value in found.items()):
        factors = {name: _factor(value, given[name]) for name, value in found.items()}
        return _factors([factors], seen)
    if levels := _levels(found, random=False):
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
    value = {"scope": "one" if one else "tensor", "low": low, "high": high}
    if not one:
        value["factors"] = draws[0]
    if len(draws) == 1 and one:
        text = "turns the sign round" if abs(low + 1) <= ALIKE else f"multiplies the gradient by {low:.4g}"
    else:
        where = "the gradient" if one else "each tensor"
        text = f"multiplies {where} by {low:.3g} to {high:.3g}" + (", drawn anew" if len(draws) > 1 else "")
    return [Fact("factor", value, text, seen)]


def _zeros(given: Update, found: Update, shares: dict[str, float], near: float = ALIKE) -> Fact:
    kept = [(value != 0) for value in found.values()]
    pairs = [(value[keep], given[name][keep]) for (name, value), keep in zip(found.items(), kept, strict=True)]
    ratio = torch.cat([(one / other).flatten() for one, other in pairs])
    scale = float(ratio.median()) if len(ratio) else 1.0
    same = len(ratio) == 0 or float((ratio - scale).abs().quantile(0.99)) <= near * abs(scale)
    rest = "changed" if not same else "exact" if abs(scale - 1) <= near else scale
    total = sum(value.numel() for value in found.values())
    share = sum(float((value == 0).sum()) for value in found.values()) / total
    value = {"share": share, "shares": shares, "rest": rest}
    said = {"exact": "leaves the rest as it is", "changed": "changes the rest"}
    after = said[rest] if isinstance(rest, str) else f"multiplies the rest by {rest:.4g}"
    return Fact("zeros", value, f"sets {100 * share:.3g} % of the entries to zero and {after}", "one dense gradient")


def _chosen(fact: Fact, apply: Callable[[Update], Update], lab: _Seen, size: float) -> Fact:
    """Return the fact about zeros with how they are chosen, where that can be told."""
    found, other = (times(apply(times(one, size)), 1 / size) for one in (lab.a, lab.b))
    chosen = "otherwise"
    masks = [{name: value == 0 for name, value in one.items()} for one in (found, other)]
    sizes = {name: lab.a[name].abs() for name in found}
    if all(torch.equal(masks[0][name], masks[1][name]) for name in found):
        chosen = "fixed"
        columns = [_in_columns(mask) for mask in masks[0].values() if bool(mask.any()) and not bool(mask.all())]
        chosen = "fixed columns" if columns and all(columns) else chosen
    elif _below(torch.cat([sizes[name][masks[0][name]] for name in found]),
                torch.cat([sizes[name][~masks[0][name]] for name in found])):  # fmt: skip
        chosen = "smallest of all"
    elif all(_below(sizes[name][masks[0][name]], sizes[name][~masks[0][name]]) for name in found):
        chosen = "smallest of each tensor"
    words = {"fixed": "the same ones in every gradient", "fixed columns": "the same columns in every gradient"}
    said = f"{fact.text}; chosen: {words.get(chosen, chosen)}" if chosen != "otherwise" else fact.text
    return Fact("zeros", {**fact.value, "chosen": chosen}, said, "two dense gradients")


def _below(dropped: Tensor, kept: Tensor) -> bool:
    return not len(dropped) or not len(kept) or float(dropped.max()) <= float(kept.min())


def _in_columns(mask: Tensor) -> bool:
    """Whether a mask is made of whole columns of a matrix."""
    if mask.dim() < 2:
        return False
    flat = mask.flatten(1)
    return bool((flat == flat[:1]).all())


def _levels(found: Update, *, random: bool) -> list[Fact]:
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
    value = {"most": most, "rounding": "random" if random else "nearest"}
    return [Fact("levels", value, f"rounds entries {how} of at most {most} values in a tensor", "one dense gradient")]


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
    kept = [name for name, test in tests.items() if pairs and all(test(*pair) for pair in pairs)]
    if not kept:
        return []
    texts = {"sizes": "moves entries or turns their signs", "row products": "rotates the rows of each matrix",
             "column products": "rotates the columns of each matrix", "length": "turns each matrix, as long as it was"}  # fmt: skip
    text = f"{texts[kept[0]]}, " + ("anew in every update" if secret else "always in the same way")
    seen = f"{kept[0]} of one dense gradient stay"
    return [Fact("mixes", {"kept": kept[0], "secret": secret}, text, seen)]


def _near(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= 1e-6 * float(one.abs().max())


def _rank(found: Update) -> list[Fact]:
    ranks = {}
    for name, value in found.items():
        if value.dim() >= 2:
            flat = value.flatten(1).double()
            ranks[name] = (int(torch.linalg.matrix_rank(flat, rtol=1e-8)), min(flat.shape))
    if not ranks or not any(rank < full for rank, full in ranks.values()):
        return []
    most = max(rank for rank, full in ranks.values() if rank < full)
    return [Fact("rank", {"most": most}, f"lowers the rank of matrices to {most}", "one dense gradient of full rank")]


# A map that is drawn anew.


def _drawn(lab: _Seen) -> list[Fact]:
    """Return what draws do to a gradient, noise that is added aside."""
    draws = [lab.out(lab.a, draw) for draw in range(16)]
    seen = "16 draws of one dense gradient"
    if all(_straight(value, lab.a[name]) for one in draws for name, value in one.items()):
        return _factors([{name: _factor(value, lab.a[name]) for name, value in one.items()} for one in draws], seen)
    levels = [_levels(one, random=True) for one in draws]
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
