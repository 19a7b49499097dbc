"""Result rows of one cell of attacks on images or on text.

The attacks of the paper and the blind one have their own numbers. The knowing attacker's are those of the strongest of
all that were tried, by the metric and statistic of the row, which its key ``by`` names; numbers of single images are
not repeated where that is the paper's or the blind one: the row's run says which they are. Beside them stand, as
summaries only, each attack that was ``tried``, the references (once per cell, as they need no attack), the oracle's
choice among the paper's starts, and the ``difference`` between the knowing and the paper's attacker in pairs. What an
attacker has over the best reference is a ``difference`` of his own, again in pairs, and so is what each attack that was
tried has over that of the block ``cells.against``. Updates that say nothing are counted, attack by attack, in a row of
their own; no number is chosen or summarised by that count.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leaklab.metrics.intervals import paired_difference_for, summarise_for
from leaklab.metrics.statistics import Summary
from leaklab.report.collect.attempts import ORACLE, OWN_CHOICE, Attempt, Cell, Statistic, noted
from leaklab.report.collect.source import NO_INFORMATION, Source
from leaklab.report.numbers.results import (
    BLIND,
    BY,
    DIFFERENCE,
    KNOWING,
    OVER_GUESS,
    PAPER,
    SELECTION,
    TRIED,
    UNMARKED,
    ResultRow,
    RowKeys,
)

KNOWING_LESS_PAPER = f"{KNOWING} - {PAPER}"
Singles = Callable[[Attempt, str], Iterator[tuple[RowKeys, dict[str, Any]]]]
"""Of an attack and a metric: the keys and fields of the rows of single images, updates or sentences."""


@dataclass(frozen=True)
class AttackRows:
    """How an item shows its attacks.

    Attributes:
        source: of the item.
        statistics: of a metric: the summaries that the item shows, the deciding one for single values last.
        singles: of an attack and a metric: its rows of single values.
    """

    source: Source
    statistics: Callable[[str], Sequence[Statistic]]
    singles: Singles

    def of(self, cell: Cell) -> Iterator[ResultRow]:
        """Yield the rows of a cell."""
        for attacker in (PAPER, BLIND):
            attempt = cell.by(attacker)
            for metric in attempt.metrics if attempt else ():
                assert attempt is not None
                yield from self._single_rows(cell, attempt, metric, attacker, {})
                yield from self._summary_rows(cell, attempt, metric, attacker, {})
                for statistic in self.statistics(metric):
                    yield from self._over_guess_rows(cell, attempt, metric, statistic, attacker, {})
        for metric in dict.fromkeys(name for attempt in cell.attempts for name in attempt.metrics):
            yield from self._knowing_rows(cell, metric)
        for attempt in cell.attempts:
            for metric in attempt.metrics:
                yield from self._summary_rows(cell, attempt, metric, UNMARKED, {TRIED: attempt.name})
                yield from self._against_rows(cell, attempt, metric)
        yield from self._aside_rows(cell)
        for attempt in cell.attempts:
            yield from self._silence_rows(cell, attempt)

    def strongest(self, cell: Cell, metric: str, statistic: Statistic) -> Attempt | None:
        """Return the strongest attack of a cell; None for a metric without direction."""
        shown = self.source.shown_as(cell.attempts[0].run, metric)
        return cell.strongest(metric, statistic, self.source.meaning(shown).better)

    def _knowing_rows(self, cell: Cell, metric: str) -> Iterator[ResultRow]:
        strongest = None
        for statistic in self.statistics(metric):
            strongest = self.strongest(cell, metric, statistic)
            if strongest is None:
                return
            by = {BY: strongest.name}
            yield self.summary_row(cell, strongest, metric, statistic, strongest.summary(metric), KNOWING, by)
            yield from self._over_guess_rows(cell, strongest, metric, statistic, KNOWING, by)
            yield from self._difference_rows(cell, strongest, metric, statistic)
        if strongest is not None and strongest.run.attacker == KNOWING:
            yield from self._single_rows(cell, strongest, metric, KNOWING, {BY: strongest.name})

    def _difference_rows(
        self, cell: Cell, strongest: Attempt, metric: str, statistic: Statistic
    ) -> Iterator[ResultRow]:
        paper = cell.by(PAPER)
        if paper is None or paper is strongest or metric not in paper.metrics:
            return
        lines, other = strongest.of(metric), paper.of(metric)
        if strongest.updates.places_of(lines) != paper.updates.places_of(other):  # other updates: nothing to pair
            return
        clusters = strongest.updates.clusters_of(lines)
        summary = paired_difference_for(metric, lines["value"].to_numpy(), other["value"].to_numpy(), clusters)
        more = {DIFFERENCE: KNOWING_LESS_PAPER}
        yield self.summary_row(cell, strongest, metric, statistic, summary, UNMARKED, more, paper.ids)

    def _against_rows(self, cell: Cell, attempt: Attempt, metric: str) -> Iterator[ResultRow]:
        """Yield what an attack has over that of the block ``cells.against`` in its cell, update by update."""
        block = self.source.against
        other = next((one for one in cell.attempts if one.run.block == block), None) if block else None
        if other is None or other is attempt or metric not in other.metrics:
            return
        lines, beside = attempt.of(metric), other.of(metric)
        if attempt.updates.places_of(lines) != other.updates.places_of(beside):
            return
        clusters = attempt.updates.clusters_of(lines)
        summary = paired_difference_for(metric, lines["value"].to_numpy(), beside["value"].to_numpy(), clusters)
        more = {TRIED: attempt.name, DIFFERENCE: f"{TRIED} - {block}"}
        for statistic in self.statistics(metric):
            yield self.summary_row(cell, attempt, metric, statistic, summary, UNMARKED, more, other.ids)

    def _over_guess_rows(
        self, cell: Cell, attempt: Attempt, metric: str, statistic: Statistic, attacker: str, more: RowKeys
    ) -> Iterator[ResultRow]:
        """Yield what an attacker has over the reference that is best by the statistic, update by update."""
        better = self.source.meaning(self.source.shown_as(attempt.run, metric)).better
        own, updates = attempt.of(metric), attempt.updates
        places, clusters = updates.places_of(own), updates.clusters_of(own)
        guesses = [attempt.of(metric, kind) for kind in attempt.references]
        guesses = [lines for lines in guesses if not lines.empty and updates.places_of(lines) == places]
        if not better or not guesses:
            return
        sign = 1 if better == "lower" else -1
        values = [lines["value"].to_numpy() for lines in guesses]
        best = max(values, key=lambda guess: sign * statistic.of(summarise_for(metric, guess, clusters)))
        summary = paired_difference_for(metric, own["value"].to_numpy(), best, clusters)
        more = {**more, DIFFERENCE: OVER_GUESS}
        yield self.summary_row(cell, attempt, metric, statistic, summary, attacker, more)

    def _aside_rows(self, cell: Cell) -> Iterator[ResultRow]:
        first = cell.attempts[0]
        for kind in first.references:
            for metric in first.metrics:
                yield from self._summary_rows(cell, first, metric, UNMARKED, {SELECTION: kind}, kind)
        paper = cell.by(PAPER)
        for metric in paper.metrics if paper else ():
            assert paper is not None
            yield from self._summary_rows(cell, paper, metric, PAPER, {SELECTION: ORACLE}, ORACLE)

    def _silence_rows(self, cell: Cell, attempt: Attempt) -> Iterator[ResultRow]:
        """Yield how many updates of an attack say nothing, and why; nothing where all of them speak."""
        if not attempt.updates.silent:
            return
        count, note = noted(attempt)
        attacker = attempt.run.attacker
        own: list[tuple[str, RowKeys]] = [(attacker, {})] if attacker in (PAPER, BLIND) else []
        for whose, more in (*own, (UNMARKED, {TRIED: attempt.name})):
            yield self.source.number(
                NO_INFORMATION,
                row={**cell.row, **more},
                value=float(attempt.updates.silent),
                n=count,
                clusters=count,
                note=note,
                **self._shared(cell, attempt, whose),
            )

    def _single_rows(
        self, cell: Cell, attempt: Attempt, metric: str, attacker: str, more: RowKeys
    ) -> Iterator[ResultRow]:
        for place, fields in self.singles(attempt, metric):
            name = self.source.shown_as(attempt.run, metric)
            row = {**cell.row, **more, **place}
            yield self.source.number(name, row=row, clusters=1, **fields, **self._shared(cell, attempt, attacker))

    def _summary_rows(
        self, cell: Cell, attempt: Attempt, metric: str, attacker: str, more: RowKeys, selection: str = OWN_CHOICE
    ) -> Iterator[ResultRow]:
        if attempt.of(metric, selection).empty:
            return
        summary = attempt.summary(metric, selection)
        for statistic in self.statistics(metric):
            yield self.summary_row(cell, attempt, metric, statistic, summary, attacker, more)

    def summary_row(
        self,
        cell: Cell,
        attempt: Attempt,
        metric: str,
        statistic: Statistic,
        summary: Summary,
        attacker: str,
        more: RowKeys,
        runs: tuple[str, ...] = (),
    ) -> ResultRow:
        """Return the row of a summary.

        Args:
            cell: whose keys it has.
            attempt: whose run and metric it is.
            metric: its name in the scores.
            statistic: which number of the summary.
            summary: over the updates.
            attacker: whose number it is; ``UNMARKED`` for nobody's.
            more: keys beside the cell's.
            runs: ids of other runs that it rests on.
        """
        low, high = statistic.interval(summary)
        return self.source.number(
            f"{self.source.shown_as(attempt.run, metric)}{statistic.suffix}",
            row={**cell.row, **more},
            value=statistic.of(summary),
            std=summary.std,
            ci_low=low,
            ci_high=high,
            n=summary.n,
            clusters=summary.clusters,
            **self._shared(cell, attempt, attacker, runs),
        )

    def _shared(self, cell: Cell, attempt: Attempt, attacker: str, runs: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            "attacker": attacker,
            "variant": cell.variant,
            "substitutes": self.source.substitutes(attempt.run.spec),  # type: ignore[arg-type]
            "runs": (*attempt.ids, *runs),
        }
