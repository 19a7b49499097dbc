"""What a probe found, as a card: data, lines for a terminal, and files to hand on.

A sample is *read* if a reading of it was proven and is right, or gains more than the bar over the best guess
(``yardstick``). *Stood* is said of six samples at least, none of them read, of which the same attackers read the easy
case: one sample, one step, no defense. Where a defense is described, or explains what was sent, it is said only if the
searches knew it, that is, ran it on what they simulate: else a mere change of sign would stand. Where a description
does not give what was sent, attacks say nothing: *no premise*, unless something was read all the same.
"""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, ClassVar

from jinja2 import Environment

from leaklab.guests.sheets import Sheet, templates
from leaklab.guests.verdict import LEAST, STATUS
from leaklab.probing.case import Case
from leaklab.probing.schema import SCHEMA, ProbeData
from leaklab.probing.stages import Done
from leaklab.probing.yardstick import Grades

LETTERS = {False: "C", True: "D"}
"""Whether data of others were granted -> the letter of the threat model."""
NOT_TRIED = (
    "a server that changes the model or chooses the clients",
    "several rounds of the same client together",
    "priors learnt from more public data than was given",
)


@dataclass(frozen=True)
class Outcome:
    """What the word of a probe rests on.

    Attributes:
        usable: whether the update can be used at all.
        explained: whether the client as described sends what was sent; None where nobody holds the samples.
        grades: of all readings; None where nobody holds the samples.
        proven: readings of whole samples that are proven without the truth.
        premise: whether the easy case is read; None where it was not asked.
        complete: whether all attackers had their turn.
        informed: whether the searches knew all that was done to the update, but for what was drawn.
        knows: how they knew a defense; empty where there was none, or where they did not.
        why: what kept them from knowing it; empty where they did, or nobody says.
        defended: whether a defense is described, or was found by the replay.
    """

    usable: bool
    explained: bool | None
    grades: Grades | None
    proven: int
    premise: bool | None
    complete: bool
    informed: bool = True
    knows: str = ""
    why: str = ""
    defended: bool = True

    @property
    def read(self) -> int:
        """How many samples were read; where nobody holds them, how many are proven."""
        return self.proven if self.grades is None else sum(self.grades.read)

    @property
    def samples(self) -> int | None:
        """How many there are; None where nobody holds them."""
        return None if self.grades is None else len(self.grades.guesses)

    @property
    def word(self) -> str:
        """The verdict."""
        if not self.usable:
            return "invalid"
        if self.read:
            return "read"
        if self.explained is False or self.premise is False:
            return "no premise"
        known = self.explained is True and self.premise is True and self.complete and self.informed
        return "stood" if known and self.samples is not None and self.samples >= LEAST else "undecided"


@dataclass(frozen=True, repr=False)
class Probe(Sheet):
    """What was found of a client's update; its data is as ``leaklab.probing.schema.ProbeData`` describes it."""

    body: ClassVar[str] = "probe"

    @property
    def badge(self) -> str:
        """The few words of the badge."""
        if self.word == "read":
            of = "" if self.data["samples"] is None else f" of {self.data['samples']}"
            return f"read {self.data['read'] if self.data['read'] is not None else self.data['exact']}{of}"
        return self.word

    @property
    def environment(self) -> Environment:
        """Where the templates are, with what they call."""
        return _environment()

    def above(self, limits: Mapping[str, float]) -> list[str]:
        """Return which limits are broken, in words.

        Args:
            limits: of ``exact``, samples that are read exactly, and of ``gain``, the largest mean gain over the guess.
        """
        found = {"exact": self.data["exact"], "gain": self.data["gain"]}
        return [
            f"{name} is {found[name]:g}, more than {limit:g}"
            for name, limit in limits.items()
            if found[name] is not None and found[name] > limit
        ]

    def __str__(self) -> str:
        return "\n".join(lines_of(self.data))

    def __repr__(self) -> str:
        return f"<leaklab probe of {self.data['subject']['name']}: {self.data['sentence']}>"


@cache
def _environment() -> Environment:
    return templates("leaklab.probing", "leaklab.guests")


def lines_of(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a probe's card for a terminal."""
    for warning in data["warnings"]:
        yield f"warning: {warning['text']}"
    for stage in data["stages"]:
        yield from stage_lines(stage)
    yield data["sentence"]


def stage_lines(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield what one stage said, for a terminal."""
    if "not run" in stage:
        yield f"{stage['name']}: not run ({stage['not run']})"
        return
    yield f"{stage['name']} ({stage['seconds']:.1f} s)"
    for line in stage["lines"]:
        yield f"  {line}"


def data_of(
    case: Case, outcome: Outcome, stages: Sequence[Done], *, kind: str, file: str, sha256: str, budget_out: bool,
    interrupted: bool, warnings: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return a card as ``schema.ProbeData`` describes it; no folder of the machine is named in it.

    Args:
        case: what was probed.
        outcome: what the word rests on.
        stages: all that were asked for.
        kind: ``client`` or ``exchange``.
        file: name of the case file or recording; empty for none.
        sha256: of the case file; empty for none.
        budget_out: the budget was out before all had their turn.
        interrupted: its user cut it off.
        warnings: what makes the verdict doubtful.
    """
    grades, word = outcome.grades, outcome.word
    missing = [f"{done.name} ({done.missing})" for done in stages if done.missing]
    granted = ["the model with its weights", "the loss", "rate, steps and batch size", "what was sent"]
    data = {
        "schema": SCHEMA,
        "subject": {
            "kind": kind, "file": file or None, "name": type(case.client.model).__name__,
            "parameters": sum(value.numel() for value in case.client.trained().values()), "sha256": sha256 or None,
        },
        "samples": None if case.inputs is None else len(case.inputs),
        "granted": {
            "letter": LETTERS[case.public is not None],
            "what": [
                *granted, *(["the defense"] if outcome.knows else []),
                *(["samples of others"] if case.public is not None else []),
            ],
        },
        "seed": case.seed,
        "versions": {"leaklab": version("leaklab"), "python": platform.python_version(), "torch": version("torch")},
        "warnings": list(warnings),
        "stages": [done.record() for done in stages],
        "read": None if grades is None else outcome.read,
        "exact": outcome.proven if grades is None else grades.exact,
        "gain": None if grades is None or not grades.attackers else max(one.gain.mean for one in grades.attackers),
        "measured": grades is not None and outcome.complete and outcome.informed,
        "unit": "dB" if grades is None else grades.measure.sign,
        "ended": "interrupted" if interrupted else "budget" if budget_out else "complete",
        "verdict": word,
        "status": STATUS[word],
        "sentence": sentence(outcome, missing, interrupted=interrupted),
        "not tried": [*missing, *NOT_TRIED],
    }  # fmt: skip
    return ProbeData.model_validate(data).model_dump(mode="json", by_alias=True)


def sentence(outcome: Outcome, missing: Sequence[str], *, interrupted: bool = False) -> str:
    """Return what a card says in one sentence; it never says safe."""
    grades = outcome.grades
    by = [] if grades is None else [one.by for one in grades.attackers]
    tried = f"tried: {', '.join(by)}" if by else "nobody gave a reading"
    if outcome.word == "invalid":
        return "invalid: the update cannot be used, see inputs"
    if outcome.word == "read" and grades is None:
        return f"read: {outcome.proven} samples are proven to be what was read, though nobody holds them to compare"
    if outcome.word == "read" and grades is not None:
        best = max(grades.attackers, key=lambda one: (sum(one.read), one.gain.mean))
        return (
            f"read: {outcome.read} of {outcome.samples} samples, {grades.exact} of them exactly; {best.by} reads "
            f"{sum(best.read)}, {best.gain.mean:.1f} {grades.measure.sign} over the best guess on average"
        )
    if outcome.explained is False:
        return (
            "no premise: the client as described does not send what was sent (see replay), so attacks that fail say "
            "nothing; mend the description"
        )
    if outcome.premise is False:
        return (
            "no premise: the same attackers do not read one sample of one step without any defense either, so that "
            "they fail here says nothing"
        )
    if outcome.word == "stood":
        knowing = f", who know the defense: {outcome.knows}" if outcome.knows else ""
        return (
            f"stood: none of those who were tried read any of the {outcome.samples} samples ({tried}{knowing}); nobody "
            "else was"
        )
    if outcome.samples is None:
        return "undecided: nobody holds the samples and nothing was proven; give the case its inputs and targets"
    if interrupted:
        return "undecided: it was interrupted; run it again"
    if outcome.samples < LEAST:
        return f"undecided: none of {outcome.samples} samples is read, and fewer than {LEAST} decide nothing ({tried})"
    if not outcome.informed:
        why = f" ({outcome.why})" if outcome.why else ""
        what = "the defense" if outcome.defended else "all that was done"
        other = "; leaklab try judges it by attackers who do" if outcome.defended else ""
        return f"undecided: none of {outcome.samples} samples is read, by searches that do not know {what}{why}{other}"
    if outcome.explained is None and outcome.complete:
        return (
            f"undecided: none of {outcome.samples} samples is read, and what the defense draws hides whether the "
            f"description is right ({tried})"
        )
    return f"undecided: not all had their turn ({'; '.join(missing) or 'the budget was out'}); give it a larger budget"
