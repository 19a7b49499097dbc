"""Claims over the draws of the partition: in how many they hold, and what each comparison is over all of them."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from leaklab.metrics.statistics import LEAST_CLUSTERS, summarise
from leaklab.report.judge.cases import Outcome, Part
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.estimates import Truth
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.outcomes import Unanswered, outcome_of
from leaklab.report.judge.verdicts import FAILS, HOLDS, Frequency
from leaklab.report.numbers.results import ResultTable


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
