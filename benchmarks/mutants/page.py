"""The page of a hunt: what was tried, and every survivor with the reason why it lives."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from speed.page import markdown, wrapped

from mutants.bench import Trial

REASONS = Path(__file__).with_name("reasons.yaml")
OUTCOMES = ("killed", "survived", "time limit", "void")
INTRO = """`make mutants` made this page. A mutant is one edit of our own code, drawn by a seed: a comparison flipped, a
number off by one or another constant, a sign, a term, call or branch dropped, two arguments swapped. It is written into
a copy of the working tree, where the tests that have to find it are run until one fails: in every room but those that
run the workflow, the files that import the module; of its own room also those that name it as a plug-in; then all tests
of the room of defenses, of judging, of transforms. *Killed*: a test fails that passes without the mutant (*void*: it
fails without, too). *Time limit*: the tests took too long, which says nothing. *Survived*: no test failed, so either
the mutant is *equivalent*, which means that no caller can tell it from the code but by rounding, or the tests have a
*gap*.
"""


@dataclass(frozen=True)
class Reason:
    """Why a mutant survives.

    Attributes:
        word: ``equivalent`` or ``gap``.
        why: in a sentence.
    """

    word: Literal["equivalent", "gap"]
    why: str


Reasons = Mapping[tuple[str, str, str, str], Reason]


def reasons(path: Path = REASONS) -> Reasons:
    """Read the reasons; a mutant is named by module, place, and its line before and after."""
    lines = yaml.safe_load(path.read_text("utf-8")) or [] if path.is_file() else []
    names = ("path", "place", "before", "after")
    return {tuple(line[name] for name in names): Reason(line["word"], line["why"]) for line in lines}


def unexplained(trial: Trial, said: Reasons) -> bool:
    """Return whether a mutant survived and nobody has said why."""
    return trial.outcome == "survived" and trial.key not in said


def last_line(found: Sequence[Trial], said: Reasons) -> str:
    """Return how many were killed, survived and are equivalent."""
    count = Counter(trial.outcome for trial in found)
    words = Counter(said[trial.key].word for trial in found if trial.outcome == "survived" and trial.key in said)
    open_ = sum(unexplained(trial, said) for trial in found)
    kinds = f"{words['equivalent']} equivalent, {words['gap']} gaps, {open_} unexplained"
    survived = f"{count['survived']} survived ({kinds})"
    rest = [f"{count[name]} {what}" for name, what in (("time limit", "beyond the time limit"), ("void", "void"))
            if count[name]]  # fmt: skip
    return ", ".join([f"{len(found)} mutants: {count['killed']} killed", survived, *rest])


def page(found: Sequence[Trial], said: Reasons, seed: int) -> str:
    """Return the page in Markdown."""
    rooms = list(dict.fromkeys(trial.room for trial in found))
    lines = [[room, *(str(_count(found, room, name)) for name in OUTCOMES)] for room in rooms]
    kinds = [[kind, *(str(sum((trial.kind, trial.outcome) == (kind, name) for trial in found)) for name in OUTCOMES)]
             for kind in sorted({trial.kind for trial in found})]  # fmt: skip
    spent = sum(trial.seconds for trial in found) / 60
    parts = [
        "# Mutants", INTRO.replace("\n", " "),
        f"Seed {seed}, {spent:.0f} minutes of one thread. {last_line(found, said)}.",
        markdown(["room", *OUTCOMES], lines), markdown(["edit", *OUTCOMES], kinds),
        "## What survived", *(_entry(trial, said) for trial in found if trial.outcome == "survived"),
    ]  # fmt: skip
    return "\n\n".join(part if part.startswith("`src") else wrapped(part) for part in parts) + "\n"


def _count(found: Sequence[Trial], room: str, outcome: str) -> int:
    return sum((trial.room, trial.outcome) == (room, outcome) for trial in found)


def _entry(trial: Trial, said: Reasons) -> str:
    reason = said.get(trial.key)
    text = f"*{reason.word}*: {reason.why}" if reason else "*unexplained*"
    where = f"`{trial.path}`, `{trial.place}`" if trial.place else f"`{trial.path}`"
    return f"{wrapped(f'{where}: {text}')}\n\n```diff\n- {trial.before}\n+ {trial.after}\n```"
