"""The page: who is how far ahead, what each attacker took, and how that was measured."""

from collections.abc import Sequence
from math import inf, isfinite, isnan, nan

from speed.page import NOTHING, markdown, unique, wrapped

from time_to_picture.cases import FIRST_HELD_OUT, FIRST_IMAGE, GOAL_LEVEL, HELD_OUT, UPDATES, Case
from time_to_picture.contest import SCALES, TUNING_CAP
from time_to_picture.contestants import CONTESTANTS, TOGETHER, Attacker
from time_to_picture.rows import MISSING, Comparison, Figures, Row, compared
from time_to_picture.workers.meter import GAIN, LEVELS

NEVER, ALONE_BY = ">", "∞"
HEADS = ("attacker", *(f"{level:g} dB" for level in LEVELS), "reached", "last, dB", "given up")


def page(
    found: Sequence[Row],
    smoothing: dict[str, float],
    machine: str,
    command: str,
    cap: float,
    patience: float,
    busy: float = nan,
) -> str:
    """Return the report as Markdown.

    Args:
        found: what came out.
        smoothing: case -> the weight that was chosen on held-out images.
        machine: one line.
        command: what made the report.
        cap: processor seconds per update.
        patience: see ``Meter``.
        busy: seconds on the clock that a processor second took; NaN where nobody knows.
    """
    cases = unique(row.workload for row in found)
    alone = [compared(found, case, together=False) for case in cases]
    together = [compared(found, case, together=True) for case in cases]
    levels = " / ".join(f"{level:g}" for level in LEVELS)
    parts = [
        "# Time to a picture",
        f"`{command}` made this page on {machine}.",
        f"Processor seconds, of one thread, until what an attacker *would return now* passes {levels} dB. The attacker "
        "chooses by its own loss, and the truth only says what its choice is worth. Every single run is in "
        "[time_to_picture.csv](time_to_picture.csv).",
        "## Best peer over best of ours",
        f"At {levels} dB; both are picked afterwards, at each level. Above 1 ours is ahead; {ALONE_BY}: no peer came "
        f"so far in half of the updates; {NOTHING}: nobody did. With the prior counted, an attacker of ours that has "
        "one pays for reading the public images and fitting the classes of the update; side by side the updates share "
        "it. Peers attack one update at a time.",
        _ratios(alone, together),
        "## Goals",
        "\n".join(_goals(alone, together)),
        *(part for case in cases for part in _section([row for row in found if row.workload == case], case)),
        _how(smoothing, cap, patience, busy),
    ]
    return wrapped("\n\n".join(parts) + "\n")


def _ratios(alone: Sequence[Comparison], together: Sequence[Comparison]) -> str:
    heads = ("case", "alone", "alone, prior counted", "side by side", "side by side, prior counted")
    return markdown(
        heads,
        [
            [own.case.title, *(_of_levels(one, prior=prior) for one in (own, shared) for prior in (False, True))]
            for own, shared in zip(alone, together, strict=True)
        ],
    )


def _of_levels(one: Comparison, *, prior: bool) -> str:
    return " / ".join(_ratio(one.ratio(level, prior=prior)) for level in LEVELS)


def _ratio(value: float) -> str:
    return NOTHING if isnan(value) else ALONE_BY if value == inf else f"{value:.3g}"


def _goals(alone: Sequence[Comparison], together: Sequence[Comparison]) -> list[str]:
    """Return a line for each goal: kept or missed, with the numbers."""
    lines = []
    for name, every in (("Alone", alone), ("Side by side", together)):
        found = [one for one in every if one.measured]
        if not found:
            continue
        for times in sorted({one.case.goal for one in found if one.case.goal is not None}):
            own = [one for one in found if one.case.goal == times]
            missed = [
                f"{one.case.title} ({_ratio(one.ratio(GOAL_LEVEL, prior=True))})" for one in own if not one.meets_goal
            ]
            whom = "; ".join(one.case.title for one in own)
            wanted = f"{name}, at least {times:g} times at {GOAL_LEVEL:g} dB with the prior counted ({whom})"
            lines.append(f"* {wanted}: {_verdict(missed)}")
        late = [
            f"{one.case.title} at {level:g} dB ({_ratio(one.ratio(level, prior=True))})"
            for one in found
            for level in one.behind
        ]
        lines.append(f"* {name}, never behind with the prior counted: {_verdict(late)}")
    unfinished = [one.case.title for one in (*alone, *together) if not one.whole]
    if unfinished:
        lines.append(f"* Not everybody was measured yet, so this may change: {'; '.join(unique(unfinished))}.")
    return lines


def _verdict(missed: Sequence[str]) -> str:
    return f"missed: {'; '.join(missed)}." if missed else "kept."


def _section(found: Sequence[Row], case: Case) -> list[str]:
    lines = [line for row in found if row.figures is not None for line in _lines(row.contestant, row.figures)]
    absent = [f"{row.contestant.name} ({row.reason})" for row in found if row.figures is None and row.reason != MISSING]
    waiting = [row.contestant.name for row in found if row.reason == MISSING]
    if not lines:
        return [f"## {case.title}", "Not measured yet."]
    parts = [f"## {case.title}", markdown(HEADS, lines)]
    if absent or waiting:
        notes = [f"Does not apply: {', '.join(absent)}."] if absent else []
        notes += [f"Not measured yet: {', '.join(waiting)}."] if waiting else []
        parts.append(" ".join(notes))
    return parts


def _lines(contestant: Attacker, own: Figures) -> list[list[str]]:
    reached = " ".join(str(own.reached[level]) for level in LEVELS)
    others = [f"{reached} of {own.count}", NOTHING if isnan(own.final) else f"{own.final:.0f}", str(own.given_up)]
    if own.failed:
        others[-1] += f", {own.failed} failed"
    lines = [[contestant.name, *(_seconds(own.seconds[level]) for level in LEVELS), *others]]
    if own.prior:
        counted = [_seconds(own.with_prior(level)) for level in LEVELS]
        lines.append([f"{contestant.name}, prior counted ({_seconds(own.prior)})", *counted, *others])
    return lines


def _seconds(value: float) -> str:
    if not isfinite(value):
        return NEVER
    digits = 4 if value < 0.01 else 3 if value < 1 else 2 if value < 10 else 1
    return f"{value:.{digits}f}"


def _how(smoothing: dict[str, float], cap: float, patience: float, busy: float) -> str:
    tried = ", ".join(f"{scale:g}" for scale in SCALES)
    chosen = "; ".join(f"{name} {scale:g}" for name, scale in smoothing.items())
    lines = [
        *(f"**{one.name}**: {one.what}." for one in CONTESTANTS if not one.together),
        f"**{TOGETHER}**: all {UPDATES} updates in one call, side by side; seconds are per update.",
        f"Clients hold images from number {FIRST_IMAGE} of the test part of Fashion-MNIST, {UPDATES} updates of one "
        "network in its initial weights; updates in float32, labels granted. The prior is of the training part, 2,000 "
        "images a class, as `fetch_dataset` leaves it; fetching and unpacking, once for each data set, is not counted.",
        f"Medians over the updates, in which never is infinite; {NEVER}: half of them never came so far. Batches: the "
        "error of all images, in the best order.",
        f"A run ends once {LEVELS[-1]:g} dB are passed, at its attacker's own end, after {cap:g} processor seconds per "
        f"update, or where no guess has gained {GAIN:g} dB for {patience:g} of them: *given up*. *Last* is the guess "
        "that it ended with. Searches of growing length follow one another, and all of them count.",
        "Ours is called as a plug-in, and the searches that it calls are watched from outside. A guess of annealed MAP "
        "under a narrower likelihood counts more than one under a wider one. Imports and a first tiny search are left "
        "out, and so is the time of scoring.",
        f"The smoothing of breaching-ig-tuned was chosen, of {tried}, on {HELD_OUT} updates of other images (from "
        f"number {FIRST_HELD_OUT}) to another network, within {TUNING_CAP:g} s each, by how many levels were reached "
        f"and how soon: {chosen or 'not yet'}. The settings of `narrow-map` were chosen on two to five such updates.",
        "breaching's total variation, made for three channels, is told that there is one. Its DLG and the plain loops "
        "have no rule to end a start: they are given ours. Under several steps breaching simulates them and has the "
        "labels in any case.",
    ]
    if not isnan(busy):
        clock = f"A processor second took {busy:.2f} s on the clock, median of the runs"
        lines.append(f"{clock}: well above 1, other work ran beside them, which lengthens the short ones most.")
    return "\n".join(["## How it was measured", "", *(f"* {line}" for line in lines)])
