"""What an item says of a control: how much protection is left of whom, and whether somebody there was made for it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controls.substitution import KEY, KNOWING, NONE, PAPER, Substitution
from leaklab.items.expand import PlannedRun, block_stage
from leaklab.observations.letters import made_for
from leaklab.records.config import Scale
from leaklab.records.files import sha256
from leaklab.report.collect.attacks import attack_rows
from leaklab.report.collect.attempts import attack_name
from leaklab.report.collect.source import Source
from leaklab.report.collect.text import text_rows
from leaklab.report.numbers.results import AS_DESCRIBED, BY, PROTECTION_LEFT, ResultRow
from leaklab.report.site.attacks_tried import HALF
from leaklab.specs.base import run_folder

NOTHING, SOME, HIDES, NO_PREMISE = "nothing", "some", "hides", "no premise"
LITTLE = 5.0
"""Percent of protection; a control that leaves no more than that hides nothing."""


@dataclass(frozen=True)
class Outcome:
    """A control in one setting of an item.

    Attributes:
        item: its key.
        control: name of the plug-in.
        setting: the row's keys.
        paper: protection left of the paper's attacker, in percent; None where there is none.
        knowing: of the strongest attacker that was tried.
        by: which that is.
        known: whether an attacker that was tried may be called one who knows the control.
        same: attacks on it that ended with the bytes of the same attack without defense.
        attacks: that have such a partner.
    """

    item: str
    control: str
    setting: str
    paper: float | None
    knowing: float | None
    by: str
    known: bool
    same: int
    attacks: int

    @property
    def hides(self) -> str:
        """What the strongest attacker leaves of it: ``nothing``, ``some``, ``hides`` or ``no premise``."""
        if self.knowing is None:
            return NO_PREMISE
        return NOTHING if self.knowing <= LITTLE else SOME if self.knowing < HALF else HIDES

    @property
    def wrong(self) -> bool:
        """Whether the control is said to hide something from somebody who knows it, or a no-op changes a byte."""
        return (self.known and self.hides in (SOME, HIDES)) or (self.control == "no-op" and self.same < self.attacks)


def outcomes(trial: Substitution, scale: Scale) -> Iterator[Outcome]:
    """Yield what came out of a control in each setting of an item, from the scores of its runs."""
    source = Source(trial.item, scale, frozenset(), {}, {})
    rows = [row for row in _collected(source, trial.runs) if row.metric == PROTECTION_LEFT]
    settings: dict[str, dict[str, ResultRow]] = {}
    for row in rows:
        if row.row[KEY] == trial.control and row.variant == AS_DESCRIBED:
            settings.setdefault(_setting(row.row, trial.control), {})[row.attacker] = row
    for name, by_attacker in settings.items():
        own, plain = (
            {(attack_name(run), run.block): run for run in runs if _setting(source.row(run), trial.control) == name}
            for runs in (trial.controlled, trial.undefended)
        )
        same = [_bytes(own[attack]) == _bytes(plain[attack]) for attack in own if attack in plain]
        paper, knowing = (by_attacker.get(who) for who in (PAPER, KNOWING))
        attacks = [run.spec.attack for run in own.values()]  # type: ignore[union-attr]
        yield Outcome(
            item=trial.item.key,
            control=trial.control,
            setting=name,
            paper=paper.value if paper else None,
            knowing=knowing.value if knowing else None,
            by=str(knowing.row[BY]) if knowing else "",
            known=made_for(trial.control, attacks),
            same=sum(same),
            attacks=len(same),
        )


def _collected(source: Source, runs: Iterable[PlannedRun]) -> Iterator[ResultRow]:
    every = list(runs)
    yield from attack_rows(source, [run for run in every if block_stage(run) == "score"])
    yield from text_rows(source, [run for run in every if block_stage(run) == "score-text"])


def _setting(row: Mapping[str, Any], control: str) -> str:
    """Return the keys of a row that the undefended client and the one with the control share."""
    return ", ".join(
        f"{key} {value}" for key, value in row.items() if key not in (KEY, BY) and value not in (NONE, control)
    )


def _bytes(run: PlannedRun) -> str:
    folder = run_folder(run.spec.attack)  # type: ignore[union-attr]
    return sha256(next(folder.glob("reconstruction.*")))
