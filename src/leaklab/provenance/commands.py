"""What the command ``leaklab`` offers of provenance: where a file comes from, signatures, code that is adopted."""

from pathlib import Path
from typing import Annotated

import typer

from leaklab.records.progress import shown
from leaklab.records.terminal import ScaleOption, named_scale, out, print_json, print_lines


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (trace, sign, adopt):
        app.command()(command)


def trace(
    file: str,
    summary: Annotated[bool, typer.Option("--summary", help="a line for each rule, and the raw data")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="all of it for programs, with absolute paths")] = False,
) -> None:
    """Print the chain from a result or figure back to the checksums of its raw data."""
    from leaklab.provenance import tracing

    with shown("reading records"):
        links = tracing.chain_of(file)
    if as_json:
        print_json(tracing.as_json(links))
        return
    for line in tracing.summary(links) if summary else tracing.lines(links):
        out.print(line)


def sign(
    key: Annotated[Path, typer.Option(metavar="FILE", help="your Ed25519 private key, in PEM")],
    scale: ScaleOption = "small",
) -> None:
    """Sign the crate of a scale, which has the checksums of all files behind its report; see docs/security.md."""
    from leaklab.provenance import signing

    with shown("reading files"):
        files = signing.sign(named_scale(scale), key)
    name = signing.signature_of(named_scale(scale))
    out.print(f"{name}: signed, with the {files} files that it describes and are here")


def adopt(
    cores: Annotated[int, typer.Option(min=1, help="how many jobs to repeat side by side")] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="only show what would be repeated")] = False,
) -> None:
    """Show that the code here makes what older code made: repeat a sample of the stale runs and compare the bytes.

    The cheapest run of every stage, plug-in, renderer and reader is repeated in a scratch folder. If all bytes are
    equal, results/code.lock records that the code stands for the older one, and nothing has to be run again; one
    differing byte adopts nothing. Commit the code first, and the file afterwards.
    """
    from leaklab.provenance.repeat import adopted

    print_lines(adopted(cores, dry_run), "repeating runs")
