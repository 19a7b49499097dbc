"""The ``leaklab`` command: look at items, plans and provenance. Work itself is done by ``snakemake``."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from leaklab.guests import commands as guest_commands
from leaklab.planning.listings import print_anything, printable
from leaklab.probing import commands as probe_commands
from leaklab.records.config import SCALES, Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError
from leaklab.report.site import scoreboard_commands

HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)
out = Console(highlight=False, soft_wrap=True, markup=False)
WIDTH_OF_PLANS = 110
guest_commands.add_to(app)
probe_commands.add_to(app)
scoreboard_commands.add_to(app)
ScaleOption = Annotated[str, typer.Option(help=f"one of {', '.join(SCALES)}")]


def main() -> None:
    """Run the command; a user's mistake is one line and exit status 1."""
    print_anything()
    try:
        app()
    except UserError as error:
        sys.exit(f"leaklab: {printable(str(error))}")


def _show_version(asked: bool) -> None:
    if asked:
        out.print(f"leaklab {version('leaklab')}")
        raise typer.Exit


@app.callback()
def leaklab(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version and stop")
    ] = False,
) -> None:
    """Look at items, plans, reports and provenance. Work itself is done by snakemake."""


@app.command()
def items(
    paper: Annotated[str | None, typer.Argument(help="list the items of one paper, also those that wait")] = None,
    why: Annotated[bool, typer.Option(help="also say why planned items do not run yet")] = False,
) -> None:
    """List tables, figures, theorems and algorithms with their state at each scale."""
    from leaklab.planning.listings import list_items

    listing = list_items(paper, why)
    Console(highlight=False).print(listing.table)
    for line in listing.lines:
        out.print(line)


@app.command()
def plan(
    item: Annotated[list[str] | None, typer.Argument(help="such as lrp table1; none: all of the scale")] = None,
    scale: ScaleOption = "small",
    stop_above: Annotated[
        float | None, typer.Option(min=0, help="fail where what is still to run may take more CPU minutes than this")
    ] = None,
    undecided: Annotated[
        bool, typer.Option("--undecided", help="show instead what would decide each undecided claim, and its cost")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="with --undecided: for programs")] = False,
) -> None:
    """Show what an item, or a whole scale, needs: jobs, steps, estimated cost, and what is missing."""
    from leaklab.planning.listings import list_plan

    if undecided:
        if item or stop_above is not None:
            raise UserError("plan --undecided is of all claims of a scale: leave out the item and --stop-above")
        from leaklab.report.judge import undecided as claims

        needs = claims.undecided_at(_scale(scale))
        costs = claims.seconds_for(needs, _scale(scale))
        if as_json:
            print(json.dumps(claims.as_json(needs, costs), indent=1))
            return
        Console(highlight=False, markup=False, width=max(out.width, WIDTH_OF_PLANS)).print(claims.table(needs, costs))
        out.print(claims.BELOW)
        return
    if as_json:
        raise UserError("plan --json goes with --undecided")
    listing = list_plan(" ".join(item or []), _scale(scale))
    # a number that is cut off says nothing: rather lines that a narrow terminal folds
    Console(highlight=False, width=max(out.width, WIDTH_OF_PLANS)).print(listing.table)
    for line in listing.lines:
        out.print(line)
    if stop_above is not None and listing.waiting_seconds > 60 * stop_above:
        raise UserError(
            f"nothing was started: what is still to run may take {duration(listing.waiting_seconds)} of one CPU core, "
            f"more than {duration(60 * stop_above)}"
        )


@app.command()
def fetch(
    item: Annotated[list[str] | None, typer.Argument(help="such as lrp table1, or lrp; none: all of the scale")] = None,
    scale: ScaleOption = "small",
) -> None:
    """Get the data and weights of a scale, a paper or an item, so that its jobs need no network.

    Data sets are prepared by snakemake, weights lie in data/weights. What nobody publishes for download, or cannot be
    reached now, is named with what to do; items that need it are shown as not run until it is there.
    """
    from leaklab.planning.fetching import files_to_make, needed_by, weights_not_to_be_had
    from leaklab.planning.listings import planned_jobs

    needed = needed_by(planned_jobs(" ".join(item or []), _scale(scale)))
    files, gone = files_to_make(needed)
    if files:
        command = ["snakemake", "--cores", "1", "--quiet", "rules", "progress", "--", *map(str, files)]
        if subprocess.run([sys.executable, "-m", *command], check=False).returncode:
            raise UserError("not all data could be prepared: see above; what was prepared is kept")
    gone = {**gone, **weights_not_to_be_had(needed)}
    for name in (*needed.datasets, *needed.weights):
        out.print(f"{name}: {gone.get(name, 'here')}")
    have = len(needed.datasets) + len(needed.weights) - len(gone)
    out.print(f"{have} of {have + len(gone)} are here{'; bring the others by hand' if gone else ''}")


@app.command()
def pull(
    item: Annotated[list[str] | None, typer.Argument(help="such as lrp table1, or lrp; none: all of the scale")] = None,
    scale: ScaleOption = "small",
) -> None:
    """Bring the runs of an item, a paper or a scale from the DVC remote, and no others; what is new is then made."""
    from leaklab.planning.fetching import pulled
    from leaklab.planning.listings import planned_items, planned_jobs

    name = " ".join(item or [])
    out.print(pulled(planned_jobs(name, _scale(scale)), planned_items(name, _scale(scale)), _scale(scale)))


@app.command()
def calibrate(
    device: Annotated[str | None, typer.Option(help="cpu or cuda; without it, that of config/config.yaml")] = None,
) -> None:
    """Measure what training and attacks take on this machine, so that plans ask for the right times; some minutes.

    Specs of scale paper are cut short and run on noise. The factors beside the costs that plans know lie in
    data/calibration.json, one entry for the processor and one for a GPU; run this as a job on a node of the kind that
    the others will run on.
    """
    from leaklab.calibrate import calibrated
    from leaklab.planning.gpus import device_wanted
    from leaklab.planning.listings import planned_jobs

    for line in calibrated(planned_jobs("", "paper"), device or device_wanted()):
        out.print(line)


@app.command()
def trace(
    file: str,
    summary: Annotated[bool, typer.Option("--summary", help="a line for each rule, and the raw data")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="all of it for programs, with absolute paths")] = False,
) -> None:
    """Print the chain from a result or figure back to the checksums of its raw data."""
    from leaklab.provenance import tracing

    links = tracing.chain_of(file)
    if as_json:
        print(json.dumps(tracing.as_json(links), indent=1))
        return
    for line in tracing.summary(links) if summary else tracing.lines(links):
        out.print(line)


@app.command()
def audit(
    git: Annotated[str | None, typer.Option(metavar="REV", help="compare what is published with it, too")] = None,
    signed_by: Annotated[
        Path | None, typer.Option(metavar="FILE", help="check signatures with this Ed25519 public key, too")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="read also what is unchanged since an earlier audit")] = False,
) -> None:
    """Recompute every recorded hash; exit 1 and name the file if one link of the chain is broken."""
    from leaklab.provenance.full_audit import full_audit
    from leaklab.report.collect.edited import only_words_changed

    for line in full_audit(git, signed_by, full, only_words_changed):
        out.print(line)


@app.command()
def sign(
    key: Annotated[Path, typer.Option(metavar="FILE", help="your Ed25519 private key, in PEM")],
    scale: ScaleOption = "small",
) -> None:
    """Sign the crate of a scale, which has the checksums of all files behind its report; see docs/security.md."""
    from leaklab.provenance import signing

    files = signing.sign(_scale(scale), key)
    out.print(f"{signing.signature_of(_scale(scale))}: signed, with the {files} files that it describes and are here")


@app.command()
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

    for line in adopted(cores, dry_run):
        out.print(line)


@app.command()
def pack(scale: ScaleOption = "small") -> None:
    """Pack what tables and figures read beside them: of their runs, where those are here, and of items edited since."""
    from leaklab.planning.listings import planned_items
    from leaklab.provenance.packing import pack
    from leaklab.report.collect.edited import keep_texts

    for line in [*keep_texts(_scale(scale)), *pack(planned_items("", _scale(scale)), _scale(scale))]:
        out.print(line)


@app.command()
def remake(
    item: Annotated[list[str] | None, typer.Argument(help="such as lrp table1; none: all that are stale")] = None,
    scale: ScaleOption = "small",
    cores: Annotated[int, typer.Option(min=1, help="how many jobs side by side")] = 2,
) -> None:
    """Make tables and figures again from what is packed beside them, without their runs; for new statistics, say."""
    from leaklab.provenance.packing import remake

    for line in remake(" ".join(item or []), _scale(scale), cores):
        out.print(line)


@app.command()
def report(scale: ScaleOption = "demo") -> None:
    """Print where the report of a scale is; build it from the published results where nothing was run here."""
    from leaklab.report.site.checkout import report_page

    found = report_page(_scale(scale))
    if found.absent_records:
        out.print(
            "built from the results in this checkout; not in it are the records of "
            f"{found.absent_records} runs and data sets"
        )
    out.print(f"report: {found.page.resolve()}")


@app.command()
def findings(scale: ScaleOption = "small") -> None:
    """Write what quotes results: docs/findings.md, docs/coverage.md, parts of README.md, results/<scale>/README.md."""
    from leaklab.records.files import write_text
    from leaklab.report.site.checkout import published_data
    from leaklab.report.site.documents import documents, unsaid

    data = published_data(_scale(scale))
    for path, text in documents(data).items():
        write_text(path, text)
        out.print(str(path))
    for line in unsaid(data):
        out.print(line)


@app.command()
def schema() -> None:
    """Write the JSON schemas of the YAML files and of cards."""
    from leaklab.planning.schema import write_schemas

    for path in write_schemas():
        out.print(str(path))


def _scale(name: str) -> Scale:
    for scale in SCALES:
        if name == scale:
            return scale
    raise UserError(f"unknown scale '{name}': choose from {', '.join(SCALES)}")


if __name__ == "__main__":
    main()
