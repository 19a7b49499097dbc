"""What the command ``leaklab`` offers to guests."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from leaklab.records.errors import UserError

LINT, DESCRIPTION = "leaklab.guests.lint:linted", "leaklab.guests.description:described"
NAMES = {"mlp": "an MLP (784-64-10)", "lenet": "a LeNet with sigmoids"}


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(describe)


def describe(
    file: Annotated[
        Path, typer.Argument(help="one class with base Defense, or one function defend(gradients, context)")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Say what a defense of your own does, found by calling it in a process of its own with limits."""
    from leaklab.guests.child import in_child
    from leaklab.guests.files import find

    guest = find(file)
    if guest.kind != "defense":
        raise UserError(f"{file}: {guest.offered} is an attack: describe takes defenses")
    lint = in_child(LINT, guest.file, {"sha256": guest.sha256}).value
    facts = in_child(DESCRIPTION, guest.file, {"sha256": guest.sha256}).value
    if as_json:
        shown = {**asdict(guest), "file": guest.file.name}
        typer.echo(json.dumps({"guest": shown, **lint, "facts": facts}, indent=1, sort_keys=True))
        return
    typer.echo(f"{guest.offered} ({guest.file.name}, line {guest.line})")
    for warning in lint["warnings"]:
        typer.echo(f"  warning: {warning['text']}")
    for line in _lines(facts):
        typer.echo(f"  {line}")


def _lines(facts: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield what is said of both networks, then what is said of one."""
    texts = {network: [fact["text"] for fact in own] for network, own in facts.items()}
    first = next(iter(texts.values()))
    both = [text for text in first if all(text in own for own in texts.values())]
    yield from both
    for network, own in texts.items():
        yield from (f"{text} (on {NAMES[network]})" for text in own if text not in both)
    if not any(texts.values()):
        yield "nothing that the experiments know: what it does fits none of their facts"
