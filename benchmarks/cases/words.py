"""Command lines with words that nobody meant: one line, or usage; nothing that was there is changed."""

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import typer
from hypothesis import strategies as st

from cases.callers import NOBODY, Call, as_before, forked, judged, make_project
from cases.outcomes import ensure
from cases.spoil import Draw
from leaklab import cli

NONSENSE = (
    "no/such.file", "empty.py", "", "binary.py", "folder", "empty.py/within", "closed.py", "closed", "closed/within",
    "x" * 5000, "x/" * 5000, "loop.py", "nowhere.py", os.fsdecode(b"M\xfcller.py"), "a\nb", "[red]{model}[/red]", "-",
    "--", "-1", "nan", "inf", "1e400", "0", "٣", "½", " 1", "1_000", "0x10", "9" * 400, "Demo", "demo ", "*", "~",
    "~nobody/x", "$HOME", "/", "..", "/dev/null", "/dev/full", "/etc/shadow", "/proc/self/mem", "file:///x", "https://x/",
    "\x1b[31m", "\u202e", "é", "e\u0301", "%s", "{}", "'", '"', "\\", "\t", "HEAD; rm x", "-h x", "@words", "=", "a=b",
)  # fmt: skip
RIGHT = {
    "file": "defense.py", "case": "case.py", "item": "table1", "paper": "lrp", "scale": "demo", "cores": "1",
    "seed": "0", "room": "defenses", "budget": "0.1s", "card": "card.json", "title": "t", "source": "s", "name": "n",
    "origin": "guest", "arena": "tiny", "fail_on": "read", "fail_above": "exact=0", "client": "case.py",
    "truth": "folder", "device": "cpu", "git": "HEAD", "signed_by": "card.json", "key": "card.json",
    "stop_above": "1", "out": "made",
}  # fmt: skip


@cache
def commands() -> dict[str, Any]:
    """Return the commands by name."""
    group: Any = typer.main.get_command(cli.app)
    return dict(group.commands)


def open_to_all(folder: Path) -> None:
    """Let everybody enter a temporary folder of ours, and those of pytest around it."""
    for place in (folder, *folder.parents):
        about = place.stat()
        ours = about.st_uid == os.getuid() and Path(tempfile.gettempdir()) in place.parents
        if ours and about.st_mode % 8 == 0:
            place.chmod(0o755)


@cache
def project(folder: Path) -> Path:
    """Make the project of this folder once."""
    open_to_all(folder)
    return make_project(folder / "project")


def case(draw: Draw, folder: Path) -> str:
    """Call a command with at least one word of nonsense, in a project of somebody else's where root may try that.

    Never as root: what nonsense does there is done to the whole machine.
    """
    own = project(folder)
    name = draw(st.sampled_from(sorted(commands())))
    user = NOBODY if os.geteuid() == 0 else None
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "100", "GIT_CEILING_DIRECTORIES": str(folder),
             "LEAKLAB_MIRROR": str(folder / "no-mirror")}  # fmt: skip
    call = Call([name, *_words(name, draw)], str(own), given, user=user)
    with as_before(own):
        said = forked(call)
    outcome = judged(call, said)
    ensure(not (own.parent / "x").exists(), "something was written beside the project")
    return outcome


def _words(name: str, draw: Draw) -> list[str]:
    """Return words for a command: nonsense in one place or more, and what is right or nothing in the others."""
    params = [one for one in commands()[name].params if one.name not in ("help", "_schema", "as_json")]
    flags = [one for one in params if getattr(one, "is_flag", False)]
    valued = [one for one in params if one not in flags]
    odd = {one.name for one in valued if draw(st.integers(0, 3)) == 0}
    if valued and not odd:
        odd = {draw(st.sampled_from(valued)).name}
    words = []
    for one in valued:
        wanted = one.required or one.name in odd or one.name == "budget" or draw(st.integers(0, 3)) == 0
        if not wanted:
            continue
        value = draw(st.sampled_from(NONSENSE)) if one.name in odd else RIGHT[one.name]
        option = [] if one.param_type_name == "argument" else [max(one.opts, key=len)]
        before = ["lrp"] if one.name == "item" and one.name not in odd else []
        words += [f"{option[0]}={value}"] if option and draw(st.booleans()) else [*option, *before, value]
    words += [one.opts[0] for one in flags if draw(st.integers(0, 3)) == 0]
    if not valued or draw(st.integers(0, 9)) == 0:
        words.insert(draw(st.integers(0, len(words))), draw(st.sampled_from(NONSENSE)))
    return words if name != "schema" else [*words, "x"]
