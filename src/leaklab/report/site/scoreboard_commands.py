"""The commands ``leaklab scoreboard`` and ``leaklab submit``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leaklab.records.errors import UserError


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="scoreboard")(show)
    app.command()(submit)


def show(
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="only the commands that judge again what older attackers judged")
    ] = False,
) -> None:
    """Show the defenses of the scoreboard by what they leave of an attack; every entry is checked on the way."""
    from leaklab.guests.scoreboard import FOLDER, command_of
    from leaklab.report.site import scoreboard

    lines = scoreboard.standings()
    if stale:
        for line in lines:
            if not line.current:
                typer.echo(f"{command_of(line.entry)} > {line.entry.name}.card.json")
    elif as_json:
        typer.echo(json.dumps([scoreboard.record(line) for line in lines], indent=1, ensure_ascii=False))
    elif lines:
        for text in scoreboard.lines_of(lines):
            typer.echo(text)
    else:
        raise UserError(f"there are no entries in {FOLDER}: `leaklab submit` makes one of a card")


def submit(
    card: Annotated[
        Path, typer.Argument(metavar="CARD", help="card.json of `leaklab try --out`, or what --json prints")
    ],
    file: Annotated[Path, typer.Option(help="the defense's file in this repository, as it was judged")],
    title: Annotated[str, typer.Option(help="as people call it, with its settings")],
    source: Annotated[str, typer.Option(help="where it is described")],
    name: Annotated[str, typer.Option(help="of the entry, in small letters; none: that of the file")] = "",
    origin: Annotated[str, typer.Option(help="house, paper (another one) or guest")] = "guest",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="none: results/scoreboard")
    ] = None,
) -> None:
    """Make an entry of the scoreboard from a card, for a pull request."""
    from leaklab.guests.scoreboard import FOLDER
    from leaklab.report.site.scoreboard import submission, written

    entry = submission(card, file, title=title, source=source, name=name, origin=origin)
    target = written(entry, FOLDER if out is None else out)
    typer.echo(f"{target}: add it and {entry.file} to a commit, and open a pull request with both")
