"""What the command ``leaklab`` offers to guests."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from leaklab.guests.listing import list_plugins
from leaklab.records.errors import UserError

JUDGE = "leaklab.guests.judge:judged"
LINT, DESCRIPTION = "leaklab.guests.lint:linted", "leaklab.guests.description:described"
NAMES = {"mlp": "an MLP (784-64-10)", "lenet": "a LeNet with sigmoids"}


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


def judge(
    file: Annotated[
        Path, typer.Argument(help="one class with base Defense, or one function defend(gradients, context)")
    ],
    budget: Annotated[float, typer.Option(min=0.1, help="minutes; what is ready by then is shown")] = 5.0,
    seed: Annotated[int, typer.Option(help="of everything that is drawn")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="the card for programs")] = False,
) -> None:
    """Judge a defense of your own in minutes: attackers chosen by what it does, and one who learns it.

    Exit status: 0 stood, 3 read, 4 undecided, 5 no premise, 1 invalid, 2 usage.
    """
    from leaklab.guests.card import card_of, lines_of
    from leaklab.guests.child import OutOfTimeError, in_child
    from leaklab.guests.files import find
    from leaklab.guests.verdict import STATUS

    until = time.monotonic() + 60 * budget
    guest = find(file)
    if guest.kind != "defense":
        raise UserError(f"{file}: {guest.offered} is an attack: try takes defenses")
    warnings = in_child(LINT, guest.file, {"sha256": guest.sha256}).value["warnings"]
    rows: list[dict[str, Any]] = []
    answers: dict[str, dict[str, Any] | None] = dict.fromkeys(NAMES)

    def told(row: dict[str, Any]) -> None:
        rows.append(row)
        if row.get("decibels") and row["attacker"] != "guess" and not as_json:
            mean = sum(row["decibels"]) / len(row["decibels"])
            typer.echo(f"{row['network']}: {row['attacker']}, {row['by']}: {mean:.1f} dB", err=True)

    def attacked(network: str) -> None:
        arguments = {"network": network, "sha256": guest.sha256, "seed": seed}
        seconds = until - time.monotonic()
        with suppress(OutOfTimeError):  # the card says that it was cut off
            answers[network] = in_child(JUDGE, guest.file, arguments, seconds=seconds, on_row=told).value

    with ThreadPoolExecutor(len(NAMES)) as pool:
        list(pool.map(attacked, NAMES))
    card = card_of(guest, seed, warnings, rows, answers)
    if as_json:
        typer.echo(json.dumps(card, indent=1, sort_keys=True))
    else:
        for warning in warnings:
            typer.echo(f"warning: {warning['text']}")
        for line in lines_of(card):
            typer.echo(line)
    sys.exit(STATUS[card["verdict"]])
