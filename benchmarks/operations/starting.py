"""What somebody waits for who only looks: commands in a fresh clone, and once what they keep is there.

Processor time of one call each: the longest of them take a minute where other work runs, and differ by a fifth. The
modules of the clone are compiled before, as an installation does.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from operations.measures import Figure, timed

REPORT = ("report", "--scale", "small")
FOLDER, KEPT = Path("results/small/report"), Path(".snakemake")
ITEMS_GOAL, REPORT_GOAL = "goal: at most 0.5 s", "goal: at most 5 s"
MAIN = "import sys; sys.argv = ['leaklab', *{words!r}]; from leaklab.cli import main; main()"
WITHOUT: dict[str, tuple[str, str]] = {
    "runs of items expanded anew": ("plan-small.json", ""),
    "items read anew": ("items.json", ""),
    "pictures made anew": ("lighter-pictures", ""),
    "templates compiled anew": ("templates", ""),
    "protections of the scoreboard resampled": ("protections.json", ""),
    "tables read number by number": (
        "", "from leaklab.report.site import site_data as m; m.read_table = m.ResultTable.read; "
    ),
    "garbage looked for": ("", "import leaklab.cli as m; m.collect_never = lambda: None; "),
    "numbers of findings with intervals": (
        "", "from leaklab.report.judge import evidence as m; kept = m.plain_number; "
        "m.plain_number = lambda row: (m.measured(row), kept(row))[1]; ",
    ),
}  # fmt: skip
"""Way of making it faster, without which the report is built -> what is taken away of what is kept, and changed."""
PARTS = {
    "expanding, or reading what was": "leaklab.report.site.checkout:known_plan",
    "tables": "leaklab.report.site.site_data:read_table",
    "findings": "leaklab.report.site.site_data:_findings",
    "pages": "leaklab.report.site.site_data:_page",
    "templates: compiling them": "jinja2.environment:Environment.compile",
    "templates filled, files written": "leaklab.report.site.site:build",
}
"""Part of a report -> the function that does it; one within another counts in both."""
CLOCKS = """
import importlib, json, sys, time
spent = {}
def clocked(part, function):
    def call(*given, **more):
        began = time.process_time()
        try:
            return function(*given, **more)
        finally:
            spent[part] = spent.get(part, 0.0) + time.process_time() - began
    return call
for part, place in PARTS.items():
    module, _, path = place.partition(":")
    *outer, name = path.split(".")
    home = importlib.import_module(module)
    for one in outer:
        home = getattr(home, one)
    setattr(home, name, clocked(part, getattr(home, name)))
imported = time.process_time()
from leaklab.cli import main
sys.argv = ["leaklab", *WORDS]
try:
    main()
except SystemExit as end:
    assert not end.code
print(json.dumps({"imports": imported, **spent, "all of it": time.process_time()}))
"""


def start(checkout: Path, scratch: Path) -> list[Figure]:
    """Measure commands in a clone, what each way of making the report faster gives, and where its time goes."""
    folder = scratch / "start"
    subprocess.run(["git", "clone", "--quiet", str(checkout), str(folder)], check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], cwd=folder, check=True)
    found = [*_commands(folder), *_ways(folder), *_parts(folder)]
    shutil.rmtree(folder)
    return found


def _commands(folder: Path) -> list[Figure]:
    nothing, no_report = _gone(folder, KEPT, FOLDER), _gone(folder, FOLDER)
    dry_run = ["snakemake", "--dry-run", "--quiet", "all", "--cores", "1", "--", "demo"]
    return [
        _figure("`leaklab --help`", folder, _leaklab("--help")),
        _figure("`leaklab items` in a fresh clone", folder, _leaklab("items"), nothing),
        _figure("`leaklab items`", folder, _leaklab("items"), note=ITEMS_GOAL),
        _figure("`leaklab plan --scale small` in a fresh clone", folder, _leaklab("plan", "--scale", "small"), nothing),
        _figure("`leaklab plan --scale small`", folder, _leaklab("plan", "--scale", "small")),
        _figure("`leaklab report --scale small` in a fresh clone", folder, _leaklab(*REPORT), nothing),
        _figure("`leaklab report --scale small` without its folder", folder, _leaklab(*REPORT), no_report, REPORT_GOAL),
        _figure("`leaklab report --scale small`, nothing changed", folder, _leaklab(*REPORT)),
        _figure("`snakemake --dry-run demo` in a fresh clone", folder, dry_run, nothing),
        _figure("`snakemake --dry-run demo`", folder, dry_run),
    ]


def _ways(folder: Path) -> list[Figure]:
    """Return what a report without its folder takes where one of the ways is not gone."""
    timed(*_leaklab(*REPORT), folder=folder, PYTHONPATH=str(folder / "src"))
    found = []
    for way, (kept, change) in WITHOUT.items():
        gone = _gone(folder, FOLDER, *([KEPT / kept] if kept else []))
        command = [sys.executable, "-c", change + MAIN.format(words=REPORT)]
        found.append(_figure(f"`leaklab report --scale small` without its folder, {way}", folder, command, gone))
    return found


def _parts(folder: Path) -> list[Figure]:
    program = f"PARTS, WORDS = {PARTS!r}, {REPORT!r}{CLOCKS}"
    _gone(folder, FOLDER)()
    said = timed(sys.executable, "-c", program, folder=folder, PYTHONPATH=str(folder / "src")).text
    spent = json.loads(said.splitlines()[-1])
    return [Figure("start", f"of a report without its folder: {part}", value, "s") for part, value in spent.items()]


def _figure(
    what: str, folder: Path, command: Sequence[str], before: Callable[[], None] = lambda: None, note: str = ""
) -> Figure:
    before()
    return Figure("start", what, timed(*command, folder=folder, PYTHONPATH=str(folder / "src")).cpu, "s", note)


def _leaklab(*words: str) -> list[str]:
    return [sys.executable, "-m", "leaklab.cli", *words]


def _gone(folder: Path, *places: Path) -> Callable[[], None]:
    """Return what takes files or folders away."""

    def take_away() -> None:
        for place in places:
            path = folder / place
            path.unlink(missing_ok=True) if path.is_file() else shutil.rmtree(path, ignore_errors=True)

    return take_away
