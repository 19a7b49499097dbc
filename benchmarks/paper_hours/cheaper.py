"""What would make a kind of work cheaper without asking anything else: each way changes a unit's three bounds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leaklab.planning.plan import Job, Plan
from leaklab.specs.attack import AttackSpec
from paper_hours.attacks import GENERATIVE
from paper_hours.counting import Count
from paper_hours.hours import LAUNCH_SECONDS, SHARE, decider, seconds_of
from paper_hours.kinds import Kind, units_of, words_of

TF32, BF16 = 494.7e12, 989.4e12
"""Products a second in an H100's tensor cores on dense matrices: half of the data sheet's numbers, which are for
sparse ones."""
Bounds = tuple[float, float, float]
Change = Callable[[Kind, Count, Bounds], Bounds]


@dataclass(frozen=True)
class Way:
    """One way.

    Attributes:
        name: in a word or two.
        what: in a sentence.
        change: from a kind, what a unit asks for and its seconds so far to its seconds after it.
    """

    name: str
    what: str
    change: Change


def _few_launches(kind: Kind, count: Count, bounds: Bounds) -> Bounds:
    return bounds[0], bounds[1], min(bounds[2], LAUNCH_SECONDS)


def _fifty(kind: Kind, count: Count, bounds: Bounds) -> Bounds:
    return bounds[0], bounds[1], bounds[2] / (FIFTY if GENERATIVE in kind.kind and kind.together == 1 else 1)


def _fused(kind: Kind, count: Count, bounds: Bounds) -> Bounds:
    return bounds[0], bounds[1] * count.product_bytes / count.bytes, bounds[2]


def _tf32(kind: Kind, count: Count, bounds: Bounds) -> Bounds:
    return (count.flop / (SHARE * TF32) if kind.precision == "float32" else bounds[0]), *bounds[1:]


def _bf16(kind: Kind, count: Count, bounds: Bounds) -> Bounds:
    if kind.precision != "float32":
        return bounds
    return count.flop / (SHARE * BF16), bounds[1] / 2, bounds[2]


FIFTY = 50
REPLAY = Way(
    "replayed steps",
    "a step is recorded once and replayed as one graph: the same kernels in the same order, and one launch; a "
    "search has to choose without reading numbers back",
    _few_launches,
)
GENERATION = Way(
    "a generation at once",
    f"the {FIFTY} candidates of a generation run as one batch; now one pass has one candidate of ResNet-18, as "
    "`attacks/latents/landscape.py` holds 2^24 numbers of gradients at most",
    _fifty,
)
FUSE = Way(
    "fused kernels",
    "normalizations, activations and sums are done in passing by the products around them (a compiler for the "
    "network): what is left are inputs and outputs of products",
    _fused,
)
TF = Way("TF32 products", "products of float32 numbers in tensor cores, with ten bits after the point", _tf32)
BF = Way("bfloat16", "activations, and weights in products, in half the bytes; sums and weights stay float32", _bf16)
WAYS: Mapping[str, Sequence[Way]] = {"train": (REPLAY, FUSE, TF, BF), "attack": (GENERATION, REPLAY, FUSE, TF, BF)}


def steps(jobs: Sequence[Job], plan: Plan, kinds: Mapping[str, Kind]) -> list[dict[str, object]]:
    """Return the hours of some jobs as they are, and after each way that helps them, one after the other."""
    units: dict[str, float] = {}
    for job in jobs:
        units[words_of(job.spec)] = units.get(words_of(job.spec), 0) + units_of(job, plan)
    stage = "attack" if any(isinstance(job.spec, AttackSpec) for job in jobs) else "train"
    bounds = {words: seconds_of(kinds[words].count, kinds[words].precision) for words in units}
    rows = [_row("as it is", units, bounds)]
    for way in WAYS[stage]:
        after = {words: way.change(kinds[words], kinds[words].count, own) for words, own in bounds.items()}
        if after == bounds:
            continue
        bounds = after
        rows.append(_row(way.name, units, bounds))
    return rows


def _row(way: str, units: Mapping[str, float], bounds: Mapping[str, Bounds]) -> dict[str, object]:
    sums = [sum(units[words] * own[place] for words, own in bounds.items()) / 3600 for place in range(3)]
    hours = sum(units[words] * max(own) for words, own in bounds.items()) / 3600
    names = ("flop_hours", "byte_hours", "launch_hours")
    return {"way": way, **dict(zip(names, sums, strict=True)), "hours": hours, "decided_by": decider(sums)}
