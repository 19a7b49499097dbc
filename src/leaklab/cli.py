"""The ``leaklab`` command: look at items, plans and provenance. Work itself is done by ``snakemake``."""

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from leaklab.guests import commands as guest_commands
from leaklab.planning.names import complete_item, complete_paper, no_empty_word
from leaklab.probing import commands as probe_commands
from leaklab.provenance import commands as provenance_commands
from leaklab.records.collector import collect_never
from leaklab.records.environment import duration
from leaklab.records.errors import UserError
from leaklab.records.git import stay_here
from leaklab.records.interrupts import ENDED_BY_SIGINT, interruptible
from leaklab.records.os_errors import line_of
from leaklab.records.printing import one_line, print_anything
from leaklab.records.progress import shown
from leaklab.records.terminal import AsJson, ScaleOption, named_scale, out, print_json, print_lines, print_table
from leaklab.report.site import commands as report_commands
from leaklab.report.site import scoreboard_commands

HELP = {"help_option_names": ["-h", "--help"]}
WIDTH_OF_PLANS = 110
LOOKING = ("items", "plan", "audit", "report", "findings")
"""Commands that read thousands of small objects and keep them until they end: there is no garbage to look for."""
DOORS = """\
leaklab: what private data federated learning leaks through its updates, and what a defense really buys

regenerate the papers   snakemake --cores 2 demo
judge my defense        leaklab try my_defense.py
probe my training       leaklab probe my_case.py

leaklab --help          all commands; leaklab try --help, leaklab probe --help: what the files hold"""
"""What is said where nothing is asked for."""
WORKFLOW = ("snakemake", "snakemake_interface_logger_plugins", "dvc")
"""Packages of the extra ``workflow``: judging a defense and probing a training need none of them."""
STARTS = {"fetch": "snakemake", "remake": "snakemake", "adopt": "snakemake", "pull": "dvc"}
"""Commands that start such a program."""
app = typer.Typer(
    invoke_without_command=True, rich_markup_mode="markdown", pretty_exceptions_enable=False, context_settings=HELP
)
for commands in (guest_commands, probe_commands, provenance_commands, report_commands, scoreboard_commands):
    commands.add_to(app)
Items = Annotated[
    list[str] | None,
    typer.Argument(
        help="such as lrp table1, or lrp; none: all of the scale", callback=no_empty_word, autocompletion=complete_item
    ),
]


def main() -> None:
    """Run the command; a user's mistake, or what the system refuses, is one line and exit status 1."""
    print_anything()
    try:
        stay_here()
        interruptible()(app)()
    except KeyboardInterrupt:
        sys.exit(ENDED_BY_SIGINT)
    except UserError as error:
        from leaklab.records.text_numbers import hinted

        sys.exit(f"leaklab: {one_line(hinted(str(error)))}")
    except OSError as error:
        sys.exit(f"leaklab: {one_line(line_of(error))}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in WORKFLOW:
            raise
        sys.exit(f"leaklab: {without_workflow(error.name or '')}")


def without_workflow(package: str) -> str:
    """Return what is said where a command needs a package of the workflow that is not installed."""
    return f"this needs the workflow's packages, and {package} is not here: pip install 'leaklab[workflow]'"


def _is_here(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _show_version(asked: bool) -> None:
    if asked:
        out.print(f"leaklab {version('leaklab')}")
        raise typer.Exit


@app.callback()
def leaklab(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version and stop")
    ] = False,
) -> None:
    """Look at items, plans, reports and provenance. Work itself is done by snakemake."""
    needed = STARTS.get(context.invoked_subcommand or "")
    if needed and not _is_here(needed):
        raise UserError(without_workflow(needed))
    if context.invoked_subcommand in LOOKING:
        collect_never()
    if context.invoked_subcommand is None:
        out.print(DOORS)


@app.command()
def items(
    paper: Annotated[
        str | None,
        typer.Argument(help="all of one paper, also what waits", callback=no_empty_word, autocompletion=complete_paper),
    ] = None,
    why: Annotated[bool, typer.Option(help="also say why planned items do not run yet")] = False,
    as_json: AsJson = False,
) -> None:
    """List tables, figures, theorems and algorithms with their state at each scale."""
    from leaklab.planning.item_list import list_items

    with shown("reading items"):
        listing = list_items(paper, why)
    if as_json:
        print_json(listing.content)
        return
    print_table(listing.table)
    for line in listing.lines:
        out.print(line)


@app.command()
def plan(
    item: Items = None,
    scale: ScaleOption = "small",
    stop_above: Annotated[
        float | None, typer.Option(min=0, help="fail where what is still to run may take more CPU minutes than this")
    ] = None,
    undecided: Annotated[
        bool, typer.Option("--undecided", help="show instead what would decide each undecided claim, and its cost")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what an item, or a whole scale, needs: jobs, steps, estimated cost, and what is missing."""
    from leaklab.planning.listings import list_plan

    if undecided:
        if item or stop_above is not None:
            raise UserError("plan --undecided is of all claims of a scale: leave out the item and --stop-above")
        from leaklab.report.judge import undecided as claims

        with shown("reading claims"):
            needs = claims.undecided_at(named_scale(scale))
            costs = claims.seconds_for(needs, named_scale(scale))
        if as_json:
            print_json(claims.as_json(needs, costs))
            return
        print_table(claims.table(needs, costs), WIDTH_OF_PLANS, markup=False)
        out.print(claims.BELOW)
        return
    with shown("planning"):
        listing = list_plan(" ".join(item or []), named_scale(scale))
    if as_json:
        print_json(listing.content)
    else:
        print_table(listing.table, WIDTH_OF_PLANS)
        for line in listing.lines:
            out.print(line)
    if stop_above is not None and listing.waiting_seconds > 60 * stop_above:
        raise UserError(
            f"nothing was started: what is still to run may take {duration(listing.waiting_seconds)} of one CPU core, "
            f"more than {duration(60 * stop_above)}"
        )


@app.command()
def fetch(item: Items = None, scale: ScaleOption = "small") -> None:
    """Get the data and weights of a scale, a paper or an item, so that its jobs need no network.

    Data sets are prepared by snakemake, weights lie in data/weights. What nobody publishes for download, or cannot be
    reached now, is named with what to do; items that need it are shown as not run until it is there. Each data set is
    told in a line at the end: images, classes, size and mean, and what was left out of your files or changed.
    """
    from leaklab.guests.places import plain
    from leaklab.planning.fetching import described, files_to_make, needed_by, refuse_too_few, weights_not_to_be_had
    from leaklab.planning.listings import planned_jobs

    with shown("planning"):
        jobs = planned_jobs(" ".join(item or []), named_scale(scale))
        needed = needed_by(jobs)
        files, gone = files_to_make(needed)
    if files:
        command = ["snakemake", "--cores", "1", "--quiet", "rules", "progress", "--", *map(str, files)]
        if subprocess.run([sys.executable, "-m", *command], check=False).returncode:
            raise UserError("not all data could be prepared: see above; what was prepared is kept")
    with shown("fetching weights"):
        gone = {**gone, **weights_not_to_be_had(needed)}
    for name in (*needed.datasets, *needed.weights):
        there = described(name) if name in needed.datasets else "here"
        out.print(one_line(f"{plain(name)}: {gone.get(name, there)}"))
    have = len(needed.datasets) + len(needed.weights) - len(gone)
    out.print(f"{have} of {have + len(gone)} are here{'; bring the others by hand' if gone else ''}")
    refuse_too_few(jobs)


@app.command()
def pull(
    item: Items = None,
    scale: ScaleOption = "small",
) -> None:
    """Bring the runs of an item, a paper or a scale from the DVC remote, and no others; what is new is then made."""
    from leaklab.planning.fetching import pulled
    from leaklab.planning.listings import planned_items, planned_jobs

    name = " ".join(item or [])
    with shown("bringing runs"):
        jobs, wanted = planned_jobs(name, named_scale(scale)), planned_items(name, named_scale(scale))
        line = pulled(jobs, wanted, named_scale(scale))
    out.print(line)


@app.command()
def calibrate(
    device: Annotated[str | None, typer.Option(help="cpu or cuda; without it, that of config/config.yaml")] = None,
) -> None:
    """Measure what training and attacks take on this machine, so that plans ask for the right times; some minutes.

    Specs of scale paper are cut short and run on noise; factors of the costs that plans know go to
    data/calibration.json, per kind of device. Run this as a job on a node of the kind that the others will run on.
    """
    from leaklab.calibrate import calibrated
    from leaklab.planning.gpus import device_wanted
    from leaklab.planning.listings import planned_jobs

    print_lines(calibrated(planned_jobs("", "paper"), device_wanted() if device is None else device), "measuring")


@app.command()
def audit(
    git: Annotated[str | None, typer.Option(metavar="REV", help="compare what is published with it, too")] = None,
    signed_by: Annotated[
        Path | None, typer.Option(metavar="FILE", help="check signatures with this Ed25519 public key, too")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="read also what is unchanged since an earlier audit")] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute every recorded hash; exit 1 and name the file if one link of the chain is broken."""
    from leaklab.provenance.full_audit import checked, full_audit
    from leaklab.report.collect.edited import only_words_changed

    if not as_json:
        print_lines(full_audit(git, signed_by, full, only_words_changed), "reading files")
        return
    with shown("reading files"):
        found = checked(git, signed_by, full, only_words_changed)
    print_json(found.as_json())
    raise typer.Exit(int(bool(found.faults)))


@app.command()
def pack(scale: ScaleOption = "small") -> None:
    """Pack what tables and figures read beside them: of their runs, where those are here, and of items edited since."""
    from leaklab.planning.listings import planned_items
    from leaklab.provenance.packing import pack
    from leaklab.provenance.published import keep_committed
    from leaklab.report.collect.edited import keep_texts

    print_lines(keep_committed(named_scale(scale)), "reading records")
    print_lines(keep_texts(named_scale(scale)), "reading items")
    print_lines(pack(planned_items("", named_scale(scale)), named_scale(scale)), "packing")


@app.command()
def remake(
    item: Annotated[
        list[str] | None, typer.Argument(callback=no_empty_word, help="such as lrp table1; none: all that are stale")
    ] = None,
    scale: ScaleOption = "small",
    cores: Annotated[int, typer.Option(min=1, help="how many jobs side by side")] = 2,
) -> None:
    """Make tables and figures again from what is packed beside them, without their runs; for new statistics, say."""
    from leaklab.provenance.packing import remake

    print_lines(remake(" ".join(item or []), named_scale(scale), cores), "making tables and figures")


@app.command()
def schema() -> None:
    """Write the JSON schemas of the YAML files and of cards."""
    from leaklab.planning.schema import write_schemas

    for path in write_schemas():
        out.print(str(path))


if __name__ == "__main__":
    main()
