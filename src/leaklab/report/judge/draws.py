"""Claims over the draws of the partition: in how many they hold, and what each comparison is over all of them."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from leaklab.metrics.statistics import LEAST_CLUSTERS, summarise
from leaklab.report.judge.cases import Case, Outcome, Part
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.estimates import Truth
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.verdicts import FAILS, HOLDS, Frequency
from leaklab.report.numbers.results import ResultRow, ResultTable, identity
from leaklab.report.numbers.words import NumberMissingError

# Ask the results one expression of a claim, and say in words why it has no answer.


@dataclass(frozen=True)
class Unanswered:
    """An expression without an answer.

    Attributes:
        reason: one sentence.
        missing: whether a number is missing; else the numbers that are there do not allow the arithmetic.
    """

    reason: str
    missing: bool = True


def outcome_of(claim: Claim, text: str, evidence: Evidence) -> Outcome | Unanswered:
    """Return what comes of an expression on some evidence.

    A comparison that surely fails is an answer by itself, and so are the cases at hand where others lack numbers.

    Raises:
        UserError: the expression itself is wrong.
    """
    try:
        outcome = claim.parsed(text).run(evidence.questions())
    except KeyError as key:
        return Unanswered(f"a row of the results has no key {key}")
    except (ValueError, ArithmeticError, IndexError, StopIteration) as error:
        # arithmetic that the numbers at hand do not allow, such as the logarithm of a gap that reached zero
        return Unanswered(f"the numbers do not allow the check ({error})", missing=False)
    return outcome if outcome.answers else Unanswered(outcome.lacking())


def on_tested_premise(check: Outcome, premise: Outcome) -> Outcome | Unanswered:
    """Return the check without the cases whose premise lacks a number: those that agree with it in all loops' names."""
    lacking: dict[str, NumberMissingError] = {}
    for untested in premise.absent:
        for case in check.judged:
            if _agree(case, untested) and untested.missing:
                lacking[repr(case.keys)] = untested.missing
    tested = check.without(lacking)
    return tested if tested.answers else Unanswered(tested.lacking())


def _agree(case: Case, other: Case) -> bool:
    """Return whether two cases of different expressions are about the same: their loops' values, where names agree."""
    mine, its = dict(case.keys), dict(other.keys)
    shared = mine.keys() & its.keys()
    return all(its[name] in (mine[name].values() if isinstance(mine[name], dict) else [mine[name]]) for name in shared)


@dataclass
class AskedOfDraws:
    """What the draws say of a claim, each by its numbers as they are.

    Attributes:
        holds: by draw, whether the claim holds there.
        not_run: draws in which a number is missing.
        margins: of each comparison, how far it lies on the side that was asked for, a number a draw.
    """

    holds: dict[str, bool] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    margins: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))


def frequency_over_draws(claim: Claim, results: ResultTable) -> Frequency | None:
    """Return how often the claim holds, or None where it has no check for draws or there are none.

    The numbers of a draw are taken as they are: that the draws agree or not is what tells chance apart.
    """
    asked = asked_of_draws(claim, results)
    if asked is None:
        return None
    return Frequency(
        holds=sum(asked.holds.values()),
        draws=len(asked.holds),
        fails_for=tuple(draw for draw, held in asked.holds.items() if not held),
        not_run=tuple(asked.not_run),
        tie=claim.tie,
        decided=_decided(list(asked.margins.values()), claim.tie),
    )


def asked_of_draws(claim: Claim, results: ResultTable) -> AskedOfDraws | None:
    """Return what each draw says, or None where the claim has no check for draws or there are none."""
    own = results.select(paper=claim.paper, item=claim.item)
    table, asked = Indexed(own), AskedOfDraws()
    if not claim.draw_check or not own.draws():
        return None
    for draw in own.draws():
        outcome = outcome_of(claim, claim.draw_check, Evidence(table, variant=draw, as_they_are=True))
        held = isinstance(outcome, Outcome) and all(_holds(part, claim.tie) for part in outcome.made)
        if isinstance(outcome, Unanswered) or (held and outcome.absent):
            asked.not_run.append(draw)
            continue
        asked.holds[draw] = held
        links: Counter[str] = Counter()  # of a chain such as a < b < c each link is a comparison of its own
        for part in outcome.made:
            asked.margins[part.place, links[part.place]].append(_margin(part))
            links[part.place] += 1
    return asked


def with_draws(table: Truth, frequency: Frequency | None) -> Truth:
    """Return what the table and the draws say together.

    The draws decide where their intervals do (see ``Frequency``). Where these do not, or the table surely says the
    contrary, nothing is decided. Fewer than six draws leave the table's word.
    """
    if frequency is None or frequency.draws < LEAST_CLUSTERS:
        return table
    if frequency.decided == HOLDS and table.possibly:
        return Truth.of(True)
    if frequency.decided == FAILS and not table.surely:
        return Truth.of(False)
    return Truth(table.point, False, True)


def _holds(part: Part, tie: float) -> bool:
    return part.truth.point or (tie > 0 and _margin(part) >= -tie)


def _margin(part: Part) -> float:
    """Return how far a comparison lies on the side that was asked for; 1 or -1 where its sides are no numbers."""
    return part.margin.distance.value if part.margin else 1.0 if part.truth.point else -1.0


def _decided(margins: list[list[float]], tie: float) -> str:
    """Return whether every comparison surely holds over the draws, or one surely fails; empty where neither.

    The margins of a comparison are paired over the draws, so Student's interval of their mean says; one that lies
    within the tie of zero, or above, holds.
    """
    ends = [(found.ci_low, found.ci_high) for found in map(summarise, margins)]
    if any(high is not None and high < -tie for _, high in ends):
        return FAILS
    return HOLDS if ends and all(low is not None and low > -tie for low, _ in ends) else ""


# More seeds of an item's cells from an item of their own: to a claim both are one sample.

SUFFIX = "-seeds"


def with_more_seeds(table: ResultTable) -> ResultTable:
    """Return one paper's results in which the cells of an item also rest on the seeds of the item beside it.

    A cell without a number, or with the same runs on both sides, stays as it is.
    """
    beside = {_key(row, row.item.removesuffix(SUFFIX)): row for row in table.rows if row.item.endswith(SUFFIX)}
    return ResultTable(tuple(_pooled(row, beside.get(_key(row, row.item))) for row in table.rows))


def seeds_beside(row: ResultRow) -> str:
    """Return which seeds were added to a row; empty for none."""
    return row.note if row.note.startswith("with ") and row.note.endswith(SUFFIX) else ""


def _key(row: ResultRow, item: str) -> tuple[Hashable, ...]:
    return item, row.metric, row.attacker, row.variant, identity(row.row)


def _pooled(row: ResultRow, more: ResultRow | None) -> ResultRow:
    if more is None or row.value is None or more.value is None or set(row.runs) & set(more.runs):
        return row
    first, second = row.n or 0, more.n or 0
    if not (first and second) or not (_has_spread(row) and _has_spread(more)):
        return row
    count = first + second
    mean = (first * row.value + second * more.value) / count
    within = sum((n - 1) * (std or 0.0) ** 2 for n, std in ((first, row.std), (second, more.std)))
    between = first * (row.value - mean) ** 2 + second * (more.value - mean) ** 2
    return replace(
        row,
        value=mean,
        std=math.sqrt((within + between) / (count - 1)),
        ci_low=None,
        ci_high=None,
        n=count,
        clusters=count,
        runs=(*row.runs, *more.runs),
        substitutes=tuple(dict.fromkeys((*row.substitutes, *more.substitutes))),
        note=f"with {second} more seed{'s' * (second > 1)} of {more.item}",
    )


def _has_spread(row: ResultRow) -> bool:
    """Tell whether a row's spread is known; of one seed there is none to know."""
    return row.n == 1 or row.std is not None
