"""The page of operation figures: a section for each table that is there, whoever wrote it."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from speed.page import markdown, wrapped

from leaklab.records.files import write_text

FOLDER = Path(__file__).parents[1]
PAGE = "operations.md"
TITLES = {
    "plan": "Planning",
    "graph": "The graph of all jobs",
    "start": "Commands that only look",
    "audit": "The audit",
    "overhead": "The workflow itself",
}
INTRO = """# Operation

Figures of running the workflow, each by a command of this folder: `make chaos` for the faults, `PYTHONPATH=benchmarks \
.venv/bin/python -m operations` for planning, commands that look, audit and overhead, `-m campaign` for the makespan. \
A command writes its table here, and this page is made from all tables that are there."""


def write_page(folder: Path = FOLDER) -> str:
    """Write ``operations.md`` from the tables of a folder, and return it."""
    sections = [section(folder / name) for name, section in SECTIONS.items() if (folder / name).is_file()]
    text = wrapped("\n\n".join([INTRO, *sections]) + "\n")
    write_text(folder / PAGE, text)
    return text


def faults(path: Path) -> str:
    """Return the section of what faults did."""
    table = pd.read_csv(path, keep_default_na=False)
    total = (
        f"{len(table)} faults, of which {table['survived'].sum()} survived: {table['lost'].sum()} finished files lost, "
        f"{table['wrong'].sum()} with wrong bytes, {table['tracebacks'].sum()} tracebacks."
    )
    parts = ["## Faults", CHAOS, total, _by(table, "kind"), "By the job that was hit:", _by(table, "stage")]
    failed = table[table["reason"] != ""]
    if len(failed):
        lines = [f"* {row.kind}, {row.stage}, {row.what}: {row.reason}" for row in failed.itertuples()]
        parts += ["What was not as it should be:", "\n".join(lines)]
    return "\n\n".join(parts)


CHAOS = """`make chaos` makes a clone with seven short items that together need every rule of the workflow, and makes
all of it once. Then it harms jobs, one fault each, runs the plain command, and compares. *Survived*: the plain
command ends with 0 and gives the bytes of the undisturbed run. *Lost*: files of finished jobs that were made again,
or are gone. *Tracebacks* are Python's, in what both calls and their steps wrote; the one by which Python answers
SIGINT is counted under *interrupts*. A fault that came too late to hit is not counted. Where jobs do not
depend on each other, one call meets several faults, and the seconds are a share of the disturbed and the plain call.
Calls and steps are forked from a process that has loaded the libraries (`chaos/nursery.py`);
`tests/workflow/test_kills.py` kills some that were started from nothing. A *damaged output* keeps its time, so that
Snakemake cannot see it ([provenance](../docs/provenance.md)): `leaklab audit` has to name it, and it is deleted
before the plain command.
""".replace("\n", " ")


def _by(table: pd.DataFrame, key: str) -> str:
    heads = [key, "faults", "survived", "lost", "wrong bytes", "tracebacks", "interrupts", "s each"]
    names = ["survived", "lost", "wrong", "tracebacks", "interrupts"]
    lines = []
    for name, rows in table.groupby(key):
        sums = [f"{rows[column].sum():.0f}" for column in names]
        lines.append([str(name), str(len(rows)), *sums, f"{rows['seconds'].mean():.1f}"])
    return markdown(heads, lines)


def figures(path: Path) -> str:
    """Return the sections of single figures."""
    table = pd.read_csv(path, keep_default_na=False)
    parts = []
    for section, rows in table.groupby("section", sort=False):
        lines = [[row.what, f"{row.value:.3g} {row.unit}", row.note] for row in rows.itertuples()]
        parts.append(f"## {TITLES[str(section)]}\n\n{markdown(['what', 'measured', 'on'], lines)}")
    machines = "; ".join(sorted(set(table["machine"])))
    shared = (
        f"Measured on {machines}. Other work was running: {table['load'].min():g} to {table['load'].max():g} processes "
        "waited for these cores when a measurement began. What is not called processor time would be shorter on an "
        "idle machine."
    )
    return "\n\n".join([*parts, shared])


def makespan(path: Path) -> str:
    """Return the section of a campaign's makespan against the ideal."""
    table = pd.read_csv(path, keep_default_na=False)
    rows = table[table["ideal_hours"] != ""]
    whole, ratios = ("scale", "workers", "jobs"), ("queue_over_ideal", "longest_first_over_ideal")
    lines = [
        [
            *(str(row[name]) for name in whole),
            f"{float(row['ideal_hours']):.2f}",
            *(f"{float(row[n]):.3f}" for n in ratios),
        ]
        for _, row in rows.iterrows()
    ]
    heads = ["scale", "workers", "jobs", "ideal h", "queue / ideal", "longest chain first / ideal"]
    return f"## Makespan against the ideal\n\nFrom [campaign.md](campaign.md).\n\n{markdown(heads, lines)}"


SECTIONS: dict[str, Callable[[Path], str]] = {"chaos.csv": faults, "operations.csv": figures, "campaign.csv": makespan}
