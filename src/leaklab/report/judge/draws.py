"""Claims over the draws of the partition: in how many they hold, and when that decides."""

from collections import Counter

from leaklab.report.judge.claims import Claim
from leaklab.report.judge.estimates import Truth
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.intervals import sign_test
from leaklab.report.judge.outcomes import Unanswered, outcome_of
from leaklab.report.judge.verdicts import Frequency
from leaklab.report.numbers.results import ResultTable


def frequency_over_draws(claim: Claim, results: ResultTable) -> Frequency | None:
    """Return how often the claim holds, or None where it has no check for draws or there are none.

    The numbers of a draw are taken as they are: that the draws agree or not is what tells chance apart.
    """
    own = results.select(paper=claim.paper, item=claim.item)
    table = Indexed(own)
    if not claim.draw_check or not own.draws():
        return None
    holds: dict[str, bool] = {}
    not_run: list[str] = []
    failing: Counter[str] = Counter()
    for draw in own.draws():
        outcome = outcome_of(claim, claim.draw_check, Evidence(table, variant=draw, as_they_are=True))
        if isinstance(outcome, Unanswered) or (outcome.absent and outcome.truth.point):
            not_run.append(draw)
            continue
        holds[draw] = outcome.truth.point
        failing.update({part.place for case in outcome.failing for part in case.made if not part.truth.point})
    return Frequency(
        holds=sum(holds.values()),
        draws=len(holds),
        fails_for=tuple(draw for draw, held in holds.items() if not held),
        not_run=tuple(not_run),
        fails_together=max(failing.values(), default=0),
    )


def with_draws(table: Truth, frequency: Frequency | None) -> Truth:
    """Return what the table and the draws say together.

    The draws decide where as many agree as a sign test asks for: the claim holds in so many, or one and the same of
    its comparisons fails in so many. Where they do not agree, or the table surely says the contrary, nothing is
    decided. Draws too few for any sign test leave the table's word.
    """
    needed = sign_test(frequency.draws) if frequency else None
    if frequency is None or needed is None:
        return table
    if frequency.holds >= needed and table.possibly:
        return Truth.of(True)
    if frequency.fails_together >= needed and not table.surely:
        return Truth.of(False)
    return Truth(table.point, False, True)
