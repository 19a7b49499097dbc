"""What the commands of ``leaklab`` share: how they print, how a scale is named, what help looks like."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from leaklab.records.errors import UserError
from leaklab.records.progress import shown
from leaklab.records.scales import SCALES, Scale

out = Console(highlight=False, soft_wrap=True, markup=False)
"""Prints lines, which a terminal folds and nothing cuts."""
WIDEST = 2000
"""Columns that a table has at most where nobody's terminal says how many it has."""
AsJson = Annotated[bool, typer.Option("--json", help="for programs")]


def complete_scale(incomplete: str) -> list[str]:
    """Return the scales that begin so, for a shell that completes."""
    return [scale for scale in SCALES if scale.startswith(incomplete)]


ScaleOption = Annotated[str, typer.Option(help=f"one of {', '.join(SCALES)}", autocompletion=complete_scale)]


def named_scale(name: str) -> Scale:
    """Return a scale by its name.

    Raises:
        UserError: there is no such scale.
    """
    for scale in SCALES:
        if name == scale:
            return scale
    raise UserError(f"unknown scale '{name}': choose from {', '.join(SCALES)}")


def print_json(content: Any) -> None:
    """Print something for programs."""
    print(json.dumps(content, indent=1))


def print_table(table: Table, least: int = 0, **settings: Any) -> None:
    """Print a table as wide as the terminal, but no narrower than ``least``, and where there is none as wide as it is.

    Args:
        table: to be printed.
        least: columns; lines that a narrow terminal folds rather than cells that are cut.
        settings: of the console.
    """
    console = Console(highlight=False, **settings)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        table.expand = False
        console = Console(highlight=False, width=WIDEST, **settings)
    elif console.width < least:
        console = Console(highlight=False, width=least, **settings)
    console.print(table)


def print_lines(lines: Iterable[str], words: str) -> None:
    """Print lines as they come; while the next one is waited for, a bar says what is done."""
    coming = iter(lines)
    while True:
        with shown(words):
            line = next(coming, None)
        if line is None:
            return
        out.print(line)
        sys.stdout.flush()
