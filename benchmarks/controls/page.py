"""The page ``controls.md``."""

from collections.abc import Mapping, Sequence

from speed.page import NOTHING as NOTHING_SAID
from speed.page import markdown, wrapped

from controls.judging import HALF, HIDES, LITTLE, NO_PREMISE, NOTHING, SOME, Outcome
from controls.substitution import CONTROLS

WORDS = {NOTHING: "reads it", SOME: "reads it in part", HIDES: "does not read it", NO_PREMISE: "no premise"}
INTRO = f"""# Controls

`make controls` made this page: in each item that attacks a defended client, three defenses that hide nothing stand in \
place of the item's own at scale demo, a no-op, the update with the other sign, and half the update. The client is \
captured as without defense but for the control; on it are tried the attacks on the undefended client and, of those on \
the item's defenses, all that may be run on a defense that they do not name. Two of the house are tried beside them: \
annealed MAP with a public prior on both clients, and, where an update has one image, who learns the control from \
public images. Protection left of the strongest of them: 0 % as without \
defense, 100 % as the best reference. Up to {LITTLE:g} % nothing is hidden, from {HALF:g} % a page \
would speak of hiding."""


def page(every: Sequence[Outcome], left_out: Mapping[str, str], jobs: tuple[int, int], seconds: float) -> str:
    """Return the page.

    Args:
        every: what came out.
        left_out: key of an item -> why it has no line.
        jobs: number of runs, and how many of them this call had to make.
        seconds: of processor time that it took.
    """
    parts = [INTRO, _verdict(every), _counts(every), "## Not read", _findings(every), "## Every setting", _table(every)]
    if left_out:
        parts += ["Items without a line: " + "; ".join(f"{key} ({why})" for key, why in left_out.items()) + "."]
    parts += [f"{jobs[0]} runs, {jobs[1]} of them made by this call in {seconds / 60:.1f} minutes of processor time."]
    return wrapped("\n\n".join(parts) + "\n")


def _verdict(every: Sequence[Outcome]) -> str:
    wrong = [one for one in every if one.wrong]
    said = sum(one.known for one in every)
    noop = [one for one in every if one.control == "no-op"]
    same, attacks = (sum(getattr(one, name) for one in noop) for name in ("same", "attacks"))
    first = (
        "**No control is said to hide anything by an attacker who knows it.**"
        if not wrong
        else f"**{len(wrong)} settings say what they must not:** "
        + "; ".join(f"{one.item}, {_words(one)}" for one in wrong)
        + "."
    )
    return (
        f"{first} In {said} of {len(every)} settings an attacker was made for the control; of the others a page says "
        f'"no attacker here was made for it", also where one has learnt it. {same} of {attacks} attacks on the no-op '
        "ended with the bytes of the same attack without defense."
    )


def _counts(every: Sequence[Outcome]) -> str:
    kinds = (NOTHING, SOME, HIDES, NO_PREMISE)
    lines = [
        [control, *(str(sum(one.hides == kind for one in every if one.control == control)) for kind in kinds)]
        for control in CONTROLS
    ]
    return markdown(["settings in which the strongest attacker", *(WORDS[kind] for kind in kinds)], lines)


def _findings(every: Sequence[Outcome]) -> str:
    found = [one for one in every if one.hides in (SOME, HIDES)]
    if not found:
        return "None."
    intro = "These controls hide nothing, and the strongest attacker of the item did not read them:"
    lines = [f"* {one.item}, {_words(one)}: {one.knowing:.0f} % left, by {one.by}" for one in found]
    return f"{intro}\n\n" + "\n".join(lines)


def _words(one: Outcome) -> str:
    return one.control + (f" ({one.setting})" if one.setting else "")


def _table(every: Sequence[Outcome]) -> str:
    lines = [
        [one.item, one.control, one.setting or NOTHING_SAID, _percent(one.paper), _percent(one.knowing), one.by]
        for one in every
    ]
    return markdown(["item", "control", "setting", "left of the paper's attacker", "of the strongest", "by"], lines)


def _percent(value: float | None) -> str:
    return NOTHING_SAID if value is None else f"{round(value) + 0:d} %"
