"""Write command-line.md from what the commands say of themselves: run ``python docs/write_command_line.py``."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import typer

from leaklab.cli import app
from leaklab.report.site.findings import table

PAGE = Path(__file__).with_name("command-line.md")
WIDTH = 120
HEAD = """\
# The command `leaklab`

It looks at what is here, judges files of yours, and builds pages; trainings and attacks of items are made by
`snakemake`. A mistake of the user is one line and exit status 1. Alone it shows three doors with one command each:
*regenerate the papers*, *judge my defense* ([try](try.md)) and *probe my training* ([probe](probe.md)). Written by
`python docs/write_command_line.py` from `leaklab COMMAND --help`; do not edit.

**Names.** An item may be written `lrp table1`, `lrp/table1` or `lrp-table1`, in any case; a name that is nearly right
brings up what was meant. `leaklab report lrp table1` makes the page of one item, from its table and figure alone: where
the scale has no verdicts yet, the claims that rest on the item alone are judged for it. `leaklab report mine <item>`
names the page of your own items.

**For programs.** `leaklab items`, `leaklab plan`, `leaklab report`, `leaklab audit` and `leaklab trace` with `--json`
print JSON and nothing else; an audit that fails ends with status 1, as without. What is piped is not cut to the width
of a terminal.

**Completion.** `leaklab --install-completion` sets up the shell that you use (bash, zsh, fish or PowerShell), which
then completes commands, options, scales, papers and items; `leaklab --show-completion` only prints what it would add.

**Long work.** On a terminal, what takes more than three seconds shows a bar on standard error, which goes when it is
done; elsewhere nothing is added. Snakemake tells each job in a line ([cluster](cluster.md#5-run)).
"""


def text() -> str:
    """Return the page."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    summary = table(
        ("command", "what it does"),
        ((f"[`leaklab {name}`](#leaklab-{name})", _paragraphs(command)[0]) for name, command in commands.items()),
    )
    return "\n".join([HEAD, summary, *(_section(name, command) for name, command in commands.items())])


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join(["leaklab", name, *(["[OPTIONS]"] if options else []), *map(_place, arguments)])
    parts = [f"## leaklab {name}\n", *("\n".join(_lines(one)) + "\n" for one in _paragraphs(command)), f"`{usage}`\n"]
    if rows := [*((_place(one), one.help or "", "") for one in arguments), *map(_option, options)]:
        parts.append(table(("argument or option", "what it is", "default"), map(_quoted, rows)))
    return "\n".join(parts)


def _paragraphs(command: Any) -> list[str]:
    said = inspect.cleandoc(command.help or "").replace("<", "&lt;")  # as in results/<scale>, which is no tag
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n|\f", said)]


def _lines(paragraph: str) -> Iterator[str]:
    yield from wrap(paragraph, WIDTH, break_on_hyphens=False, break_long_words=False)


def _place(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper() + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> tuple[str, str, str]:
    """Return the names of an option with its value, what it is, and its default."""
    switch = isinstance(option.default, bool)
    value = "" if switch else f" {option.metavar or option.name.upper()}"
    given = not switch and option.default not in (None, "")
    return ", ".join([*option.opts, *option.secondary_opts]) + value, option.help or "", f"{option.default}" * given


def _quoted(row: tuple[str, str, str]) -> tuple[str, str, str]:
    name, what, default = row
    return f"`{name}`", what.replace("<", "&lt;"), f"`{default}`" if default else ""


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
