"""What the command ``leaklab`` offers to whoever asks about a training of her own."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaklab.guests.commands import INTERRUPTED, usage
from leaklab.records.errors import UserError

if TYPE_CHECKING:
    from leaklab.probing.card import Probe

LIMITS = ("exact", "gain")
PASSING = ("read", "stood", "undecided")
"""Words that a gate lets pass below its limits."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="probe")(probe_file)


def limits_of(text: str) -> dict[str, float]:
    """Return limits from words like ``exact=0,gain=3``.

    Raises:
        UserError: another name, or no number.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name not in LIMITS:
            raise UserError(f"'{name}' is no limit: choose from {', '.join(LIMITS)}, as in exact=0,gain=3")
        try:
            limits[name] = float(number)
        except ValueError:
            raise UserError(f"'{part.strip()}' has no number: write it like {name}=3") from None
    return limits


def _seconds(text: str) -> float:
    from leaklab.guests.judging import seconds_of

    return seconds_of(text)


def _print_schema(asked: bool) -> None:
    if asked:
        from leaklab.probing.schema import schema

        typer.echo(json.dumps(schema(), indent=1, sort_keys=True))
        raise typer.Exit


def probe_file(
    case: Annotated[
        Path, typer.Argument(help="a Python file that defines client, inputs and targets; or a folder of recordings")
    ],
    client: Annotated[
        Path | None, typer.Option(metavar="FILE", help="of recordings: the case file that defines their client")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="of recordings: where record_truth put the private samples")
    ] = None,
    budget: Annotated[
        str, typer.Option(callback=usage(_seconds), metavar="TIME", help="90s, 5m; what is ready by then is shown")
    ] = "5m",
    seed: Annotated[int, typer.Option(help="of everything that is drawn")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="write card.json, card.html, card.md and badge.svg there"),
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            callback=usage(limits_of),
            metavar="LIMITS",
            help="such as exact=0,gain=3: status 3 only above them, 0 for what is read or not decided below",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the card for programs")] = False,
    _schema: Annotated[
        bool, typer.Option("--schema", callback=_print_schema, is_eager=True, help="print the JSON schema of cards")
    ] = False,
) -> None:
    """Say what the updates of a training of your own give away: replayed, proven, searched for, and what would stop it.

    Exit status: 0 stood, 3 read, 4 undecided, 5 no premise, 1 invalid, 2 usage, 130 interrupted.
    """
    began = time.monotonic()  # who waits for a command waits for its imports, too
    from leaklab.probing.recordings import probes_of

    limits: Mapping[str, float] | None = None if fail_above is None else limits_of(fail_above)
    statuses = [0]
    for name, made in probes_of(case, client, truth, budget, seed, progress=not as_json, began=began):
        # the stages were told as they came
        typer.echo(made.json() if as_json else made.data["sentence"])
        if out is not None:
            made.write(out / name if name else out)
        if made.data["ended"] == "interrupted":
            sys.exit(INTERRUPTED)
        statuses.append(made.status if limits is None else _gate(made, limits))
    sys.exit(next((status for status in (1, 3, 5, 4) if status in statuses), 0))


def _gate(made: "Probe", limits: Mapping[str, float]) -> int:
    """Say which limits a card is above, or why they are not asked, and return the exit status."""
    broken = made.above(limits)
    for line in broken:
        typer.echo(f"above the limit: {line}", err=True)
    why_not = "" if broken else _why_not(made.word, made.data)
    if why_not:
        typer.echo(f"the limits are not asked: {why_not}", err=True)
        return made.status
    return 3 if broken else 0


def _why_not(word: str, data: Mapping[str, Any]) -> str:
    """Return why limits may not open a gate for a card, with the way out; empty where they may.

    What nobody measured must not: neither a budget that was out nor searches that were refused.
    """
    if word not in PASSING:
        return f"the word is {word}, of which nothing is measured; read what the card says"
    if data["measured"]:
        return ""
    if data["ended"] == "budget":
        return "the budget was out before all was tried; raise --budget"
    return "not all searches ran or returned something; read what the card says of them"
