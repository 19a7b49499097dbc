"""What a guest's defense does, found by experiments alone; each fact with the experiment behind it.

A wrong fact is worse than none: attackers are chosen by these. So each rests on calls that would have come out
differently if it did not hold, and what fits no fact is not described.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, overrides
from leaklab.guests.calls import Subject
from leaklab.guests.laboratory import ALIKE, Laboratory, Sent, Update, alike, minus, norm, plus, rms, times
from leaklab.guests.maps import REPEATS, Fact, below, chosen, kept, of_draws, of_map
from leaklab.guests.moments import tiny
from leaklab.guests.trained import of_training
from leaklab.records import tensor_algebra

LAWS = {"normal": (2.65, 3.35), "Laplace": (4.5, 7.5), "uniform": (1.6, 2.0)}
"""Where the kurtosis of some thousand draws of a law lies."""
FURTHER = tuple(10.0**power for place in range(1, 7) for power in (place, -place))
"""What dense noise is multiplied by where nothing is sent of it."""
KNOWS = {"image": "the images", "label": "the labels", "weights": "the weights", "rate": "the learning rate"}


def described(file: Path, phase: Callable[[str], None], sha256: str = "") -> dict[str, list[dict[str, Any]]]:
    """Return the facts of a guest's defense on each network; a task of a child.

    Raises:
        UserError: it cannot be called.
    """
    phase("it was imported")
    subject = Subject.load(file, sha256)
    found = {}
    for network in tiny().file.networks:
        phase(f"it was described on the {network}")
        found[network] = [asdict(fact) for fact in describe(Laboratory(subject, network))]
    subject.unchanged()
    return found


def describe(laboratory: Laboratory) -> list[Fact]:
    """Return the facts of a defense on one network, the coarse ones first."""
    before = of_training(laboratory)
    facts = [*before]
    together, alone = laboratory.rounds([laboratory.a, laboratory.b, laboratory.a])
    if not all(alike(one, other) for one, other in zip(together, alone, strict=True)):
        laboratory.subject.everywhere_fresh = True
        facts.append(_memory(laboratory, together))
    hidden = [name for name in laboratory.a if name not in alone[0]]
    if hidden:
        facts.append(Fact("hidden", hidden, f"keeps {', '.join(hidden)} to itself", "names that are not sent"))
    changed = laboratory.changed_by()
    lab = Sent(laboratory, hidden, next((name for name in ("draw", "client", "round") if changed[name]), ""))
    facts += _randomness(changed)
    facts += _counts(laboratory)
    if looks := [name for name in KNOWS if changed[name]]:
        told = " and ".join(KNOWS[name] for name in looks)
        facts.append(Fact("looks at", looks, f"looks at {told}", "another one, with the same gradient and draws"))
    if alike(lab.out(lab.a), lab.out(lab.b)):
        return [*facts, _ignores(lab)]
    if facts == before and lab.is_nothing():
        seen = "dense and real gradients of five sizes come back as they are"
        return [*before] or [Fact("nothing", True, "does nothing", seen)]
    return [*facts, *_of_gradient(lab, bool(lab.varied))]


def _ignores(lab: Sent) -> Fact:
    """Return that two gradients give one update: any two, or only dense noise of this size.

    A real gradient has entries that are much larger than most, and may come through where dense noise does not.
    """
    for size in FURTHER:
        one, other = (lab.tried(times(gradient, size)) for gradient in (lab.a, lab.b))
        if one is not None and other is not None and not alike(one, other):
            what, more = ("small", "large") if size > 1 else ("large", "small")
            said = f"loses what is {what}: of dense noise of the gradient's size nothing is left, of noise "
            said += f"{max(size, 1 / size):g} times as {more} there is"
            return Fact(f"loses what is {what}", size, said, "two such gradients give one update")
    said = "what it sends does not depend on the gradient that it is given"
    return Fact("ignores the gradient", True, said, "two gradients give one update, at every size")


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


def _of_gradient(lab: Sent, random: bool) -> list[Fact]:
    """Return what happens to the gradient itself."""
    zeros = [lab.tried(lab.zero, draw) for draw in range(REPEATS if random else 1)]
    facts: list[Fact] = []
    offsets = [one for one in zeros if one is not None]
    whole = len(offsets) == len(zeros)
    if not whole:
        facts.append(
            Fact("fails on zero", True, "fails, or is not finite, on a gradient of zero", "a gradient of zero")
        )
    base: Callable[[int], Update] = (lambda draw: offsets[draw]) if whole else (lambda draw: lab.zero)
    additive = not random or (whole and _adds(lab, base))
    if whole and random and additive and any(norm(one) for one in offsets):
        facts.append(_noise(offsets, lab))
    elif whole and not random and norm(offsets[0]):
        names = [name for name, value in offsets[0].items() if rms(value)]
        facts.append(Fact("offset", names, f"adds something fixed to {_listed(names, lab)}", "a gradient of zero"))
    if additive:
        return [*facts, *of_map(lambda update: minus(lab.out(update), base(0)), lab, lambda size: _at(lab, base, size))]
    if placed := _placed(lab):
        return [*facts, *placed]
    if whole and any(norm(one) for one in offsets):
        text = "adds noise, and what it draws depends on the gradient"
        return [*facts, Fact("noise with more", True, text, "16 draws of a gradient of zero, and of another one")]
    return [*facts, *_across(lab), *of_draws(lab)]


def _across(lab: Sent) -> list[Fact]:
    """Return that what is sent is orthogonal to the gradient in each tensor, in every draw."""
    for given in (lab.a, lab.b):
        for draw in range(REPEATS // 2):
            sent = lab.out(given, draw)
            for name, value in sent.items():
                product = float((value * given[name]).sum())
                if not norm(sent) or abs(product) > ALIKE * float(value.norm() * given[name].norm()):
                    return []
    text = "sends what is orthogonal to the gradient in each tensor"
    return [Fact("orthogonal", True, text, "8 draws of each of two dense gradients")]


def _placed(lab: Sent) -> list[Fact]:
    """Return noise whose place, and not its size, depends on the gradient, and what becomes of the gradient under it.

    The difference of two draws is then the same of a gradient that is a thousand times as long.
    """
    pairs = [[lab.out(times(lab.a, size), draw) for draw in (0, 1)] for size in (1.0, 1e3)]
    short, long = (minus(one, other) for one, other in pairs)
    if not norm(short) or norm(minus(long, short)) > 1e-4 * norm(short):
        return []
    drawn = {name: torch.stack([lab.out(lab.a, draw)[name] for draw in range(REPEATS)]).double() for name in lab.a}
    left = {name: (value - value.mean(0)) * (REPEATS / (REPEATS - 1)) ** 0.5 for name, value in drawn.items()}
    live = {name: value.std(0) > 0 for name, value in left.items()}
    sigmas = {name: float(left[name][:, mask].pow(2).mean().sqrt()) for name, mask in live.items() if bool(mask.any())}
    scaled = torch.cat([(left[name][:, live[name]] / sigma).flatten() for name, sigma in sigmas.items()])
    law = _law(scaled)
    share = sum(int(mask.sum()) for mask in live.values()) / sum(mask.numel() for mask in live.values())
    sizes = {name: value.abs() for name, value in lab.a.items()}
    largest = all(below(sizes[name][~mask], sizes[name][mask]) for name, mask in live.items())
    where = "the largest entries of each tensor" if largest else "some entries"
    value = {
        "law": law,
        "sigma": sigmas,
        "share": share,
        "chosen": "largest of each tensor" if largest else "otherwise",
    }
    text = f"adds {law} noise to {where}, {100 * share:.3g} % of all"
    size = 1e9 * max(sigmas.values()) / min(rms(one) for one in lab.a.values())

    def without(update: Update) -> Update:
        found = times(lab.out(times(update, size)), 1 / size)
        return {name: torch.where(one.abs() > 1e-7 * rms(update[name]), one, 0.0) for name, one in found.items()}

    facts = [Fact("noise", value, text, "16 draws of one gradient, and of one a thousand times as long")]
    found = kept(lab.a, without(lab.a), lab, 1e-5)
    return [*facts, *(chosen(fact, without, lab, 1.0) if fact.name == "zeros" else fact for fact in found)]


def _at(lab: Sent, base: Callable[[int], Update], size: float) -> Update | None:
    found = lab.tried(times(lab.a, size))
    return None if found is None else minus(found, base(0))


def _adds(lab: Sent, base: Callable[[int], Update]) -> bool:
    """Whether the difference from what is sent of a zero gradient is the same in every draw."""
    first = minus(lab.out(lab.a, 0), base(0))
    scale = max(norm(lab.a), norm(base(0)))
    others = (minus(lab.out(lab.a, draw), base(draw)) for draw in range(1, 8))
    return all(norm(minus(other, first)) <= ALIKE * scale for other in others)


def _noise(offsets: list[Update], lab: Sent) -> Fact:
    flat = torch.stack([torch.cat([value.flatten() for value in one.values()]) for one in offsets]).double()
    values = tensor_algebra.singular_values(flat)
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
    return Fact(
        "noise", value, text, "16 draws of a gradient of zero; of another one they differ by the gradient alone"
    )


def _law(scaled: Tensor) -> str:
    """Return the law of draws of variance 1, by their kurtosis."""
    kurtosis = float(scaled.pow(4).mean())
    return next((name for name, (low, high) in LAWS.items() if low <= kurtosis <= high), "other")


def _listed(names: list[str], lab: Sent) -> str:
    if len(names) == len(lab.a):
        return "all tensors"
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} of {len(lab.a)} tensors"
