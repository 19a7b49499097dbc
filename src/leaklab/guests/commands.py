"""What the command ``leaklab`` offers to guests."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from leaklab.guests.rooms import ROOMS
from leaklab.records.errors import UserError
from leaklab.records.progress import shown

if TYPE_CHECKING:
    from leaklab.guests.files import Guest

DESCRIPTION = "leaklab.guests.description:described"
INTERRUPTED = 130


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(describe)
    app.command(name="try")(judge)
    app.command(name="list")(list_plugins)


def describe(
    file: Annotated[
        Path, typer.Argument(help="one class with base Defense, or one function defend(gradients, context)")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Say what a defense of your own does, found by calling it in a process of its own with limits."""
    from leaklab.guests.child import in_child
    from leaklab.guests.files import find
    from leaklab.guests.judging import LINT

    guest = find(file)
    if guest.kind != "defense":
        raise UserError(f"{file}: {guest.offered} is an attack: describe takes defenses")
    with shown("calling the defense"):
        lint = in_child(LINT, guest.file, {"sha256": guest.sha256}).value
        facts = in_child(DESCRIPTION, guest.file, {"sha256": guest.sha256}).value
    if as_json:
        offered = {**asdict(guest), "file": guest.file.name}
        typer.echo(json.dumps({"guest": offered, **lint, "facts": facts}, indent=1, sort_keys=True))
        return
    typer.echo(f"{guest.offered} ({guest.file.name}, line {guest.line})")
    for warning in lint["warnings"]:
        typer.echo(f"  warning: {warning['text']}")
    for line in _lines(facts):
        typer.echo(f"  {line}")


def _lines(facts: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield what is said of both networks, then what is said of one."""
    from leaklab.guests.arenas import DEFAULT, find

    words = find(DEFAULT).file.networks
    texts = {network: [fact["text"] for fact in own] for network, own in facts.items()}
    first = next(iter(texts.values()))
    both = [text for text in first if all(text in own for own in texts.values())]
    yield from both
    for network, own in texts.items():
        yield from (f"{text} (on {words[network].words})" for text in own if text not in both)
    if not any(texts.values()):
        yield "nothing that the experiments know: what it does fits none of their facts"


def _print_schema(asked: bool) -> None:
    if asked:
        from leaklab.guests.schema import schema

        typer.echo(json.dumps(schema(), indent=1, sort_keys=True))
        raise typer.Exit


def usage(check: Callable[[str], object]) -> Callable[[str | None], str | None]:
    """Return a callback of an option, for which what the check complains of is a wrong call."""

    def checked(text: str | None) -> str | None:
        try:
            if text is not None:
                check(text)
        except UserError as error:
            raise typer.BadParameter(str(error)) from None
        return text

    return checked


def _seconds(text: str) -> float:
    from leaklab.guests.judging import seconds_of

    return seconds_of(text)


def _arena(text: str) -> object:
    from leaklab.guests.arenas import find

    return find(text)


def _words(text: str) -> list[str]:
    from leaklab.guests.verdict import STATUS

    choice = [word for word, status in STATUS.items() if status]
    words = [word.strip().replace("-", " ") for word in text.split(",")]
    if wrong := [word for word in words if word not in choice]:
        raise UserError(f"'{wrong[0]}' is no word that can fail: choose from {', '.join(choice)}")
    return words


GuestFile = Annotated[
    Path,
    typer.Argument(
        help="one class with base Defense, one function defend(gradients, context), or one class with "
        "reconstruct(self, case)"
    ),
]
WordsThatFail = Annotated[
    str | None,
    typer.Option(
        callback=usage(_words),
        metavar="WORDS",
        help="such as read,undecided: only these end with their status, what stood or is not listed with 0",
    ),
]


def judge(
    file: GuestFile,
    budget: Annotated[
        str, typer.Option(callback=usage(_seconds), metavar="TIME", help="90s, 5m; what is ready by then is shown")
    ] = "5m",
    arena: Annotated[
        str,
        typer.Option(
            callback=usage(_arena),
            metavar="NAME",
            help="tiny, images, colour, batch, steps or text, or a YAML file like theirs",
        ),
    ] = "tiny",
    seed: Annotated[int, typer.Option(help="of everything that is drawn")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="write card.json, card.html, card.md and badge.svg there"),
    ] = None,
    fail_on: WordsThatFail = None,
    as_json: Annotated[bool, typer.Option("--json", help="the card for programs")] = False,
    _schema: Annotated[
        bool, typer.Option("--schema", callback=_print_schema, is_eager=True, help="print the JSON schema of cards")
    ] = False,
) -> None:
    """Judge a defense of your own in minutes: attackers chosen by what it does, and one who learns it.

    An attack of your own, a class with reconstruct(self, case), is held against the strongest of the house instead.

    Exit status of a defense: 0 stood, 3 read, 4 undecided, 5 no premise, 1 invalid, 2 usage, 130 interrupted.
    """
    from leaklab.guests import judging
    from leaklab.guests.files import find
    from leaklab.guests.progress import Progress

    interrupted, seconds, guest = False, judging.seconds_of(budget), find(file)
    if guest.kind == "attack":
        _contest(guest, arena, seconds, seed, out, fail_on, as_json=as_json)
    with Progress(seconds, rows=not as_json) as progress:
        try:
            card = judging.judge(file, arena, budget=budget, seed=seed, watch=progress)
        except judging.Interrupted as stopped:
            card, interrupted = stopped.card, True
    typer.echo(card.json() if as_json else str(card))
    if out is not None:
        card.write(out)
    passes = fail_on is not None and card.word not in (*_words(fail_on), "invalid")
    sys.exit(INTERRUPTED if interrupted else 0 if passes else card.status)


def _contest(
    guest: "Guest", arena: str, seconds: float, seed: int, out: Path | None, fail_on: str | None, *, as_json: bool
) -> NoReturn:
    """Show where an attack reads more than the strongest of the house, and exit."""
    from leaklab.guests.arenas import find
    from leaklab.guests.contesting import contest
    from leaklab.guests.progress import Progress

    if fail_on is not None:
        raise UserError("--fail-on is for defenses: of an attack the table says where it is ahead")
    with Progress(seconds, rows=not as_json) as progress:
        found = contest(guest, seconds, seed, progress, find(arena))
    typer.echo(found.json() if as_json else str(found))
    if out is not None:
        found.write(out)
    sys.exit({"complete": 0, "budget": 0, "interrupted": INTERRUPTED}.get(found.data["ended"], 1))


def list_plugins(
    room: Annotated[str | None, typer.Argument(help=f"one of {', '.join(ROOMS)}; none: all")] = None,
) -> None:
    """List plug-ins and where each is from: leaklab, mine/, a folder of your pyproject.toml, or a distribution."""
    from leaklab.guests.places import lodgers
    from leaklab.records import plugins

    if room is not None and room not in ROOMS:
        raise UserError(f"there is no kind of plug-ins '{room}': choose from {', '.join(ROOMS)}")
    guests = lodgers()
    for one in ROOMS if room is None else [room]:
        places = dict.fromkeys(plugins.available(one), "leaklab")
        places |= {name: lodger.place for name, lodger in guests[one].items()}
        typer.echo(one)
        for name, place in sorted(places.items()):
            typer.echo(f"  {name:<28} {place}")
