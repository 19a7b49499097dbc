"""The same commands in odd surroundings: what they say in plain ones, or one line; nothing is changed."""

import os
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cases.callers import NOBODY, Call, Said, as_before, forked, judged, make_project, started
from cases.outcomes import TAKEN, ensure
from cases.spoil import Draw
from cases.words import open_to_all

COMMANDS = (
    ["--version"], ["items"], ["items", "lrp"], ["items", "lrp", "--json"], ["items", "--why"], ["list", "defenses"],
    ["plan", "lrp", "table1", "--scale", "demo"], ["describe", "defense.py"], ["report", "--scale", "demo"],
    ["findings", "--scale", "demo"], ["scoreboard"],
    ["trace", "config/config.yaml"], ["try", "--schema"], ["audit"], [],
)  # fmt: skip
FOLDERS = ("", "no/such", "/no/such", "config/config.yaml", "loop.py", "closed", "/", ".", "a b", "\udcfc", "x" * 4000,
           "/dev/null", "/proc", "~", "$HOME")  # fmt: skip
NUMBERS = ("", "0", "-1", "abc", "1e9", "100000", "nan", "1", " 4 ", "4.5")
ODD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LEAKLAB_MIRROR"), FOLDERS),
    "PATH": ("", "/no/such", ".", "config/config.yaml", "/closed:", "x" * 9000),
    **dict.fromkeys(("LANG", "LC_ALL", "LC_CTYPE", "LC_NUMERIC"),
                    ("", "C", "POSIX", "C.UTF-8", "de_DE.UTF-8", "tr_TR", "\udcfc", "x" * 300)),
    "LANGUAGE": ("de", "", "xx"), "TZ": ("", "Pacific/Kiritimati", "no/such", ":/etc/passwd", "x" * 3000, "UTC+99"),
    "PYTHONIOENCODING": ("ascii", "latin-1", "utf-8", "utf-16", "cp437", "ascii:replace"),
    **dict.fromkeys(("COLUMNS", "LINES"), NUMBERS),
    "LEAKLAB_CHECKPOINT_SECONDS": NUMBERS, "LEAKLAB_PIECE_MINUTES": NUMBERS,
    "TERM": ("", "dumb", "xterm-256color", "no such"), "NO_COLOR": ("1", ""), "FORCE_COLOR": ("1", "0"),
    "LEAKLAB_DEVICE": ("", "cpu", "cuda:99", "gpu"), "LEAKLAB_SCALES": ("", "demo", "no"), "LEAKLAB_RECORD": FOLDERS,
    "GIT_DIR": ("", "/no/such", "config"), "GIT_CONFIG_GLOBAL": ("/no/such", "binary.py"),
    "SOURCE_DATE_EPOCH": ("0", "abc"), "USER": ("", "no such"), "SHELL": ("", "/no/such"), "PWD": ("/no/such", "x"),
}  # fmt: skip
"""Variable -> what it is set to."""
UMASKS = st.sampled_from([0o022, 0o022, 0o002, 0, 0o077, 0o777, 0o222, 0o177])
PLACES = ("the folder", "the folder", "through a link", "through two links", "with a blank", "with bytes",
          "with a line break", "with a bracket", "read-only")  # fmt: skip
CHANGES_WORDS = {"COLUMNS", "FORCE_COLOR", "PYTHONIOENCODING", "LEAKLAB_MIRROR", "LEAKLAB_SCALES", "LEAKLAB_DEVICE",
                 "TERM"}  # fmt: skip
"""What they change is what is said, or how."""
ANEW = 60
"""One in so many calls starts a Python of its own."""


def case(draw: Draw, folder: Path) -> str:
    """Call a command in odd surroundings."""
    words = draw(st.sampled_from(COMMANDS))
    changed: dict[str, str | None] = {}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(ODD)))
        changed[name] = draw(st.sampled_from([*ODD[name], None]))
    place = draw(st.sampled_from(PLACES))
    own, reached = _places(folder)[place]
    given = {**_plain(folder), **{name: value for name, value in changed.items() if value is not None}}
    for name in (name for name, value in changed.items() if value is None):
        given.pop(name, None)
    call = Call(words, str(reached), given, draw(UMASKS), NOBODY if os.geteuid() == 0 else None,
                closed=draw(st.sampled_from([(), (), (), (), (0,)])),
                output=draw(st.sampled_from([""] * 9 + ["/dev/full"])))  # fmt: skip
    anew = draw(st.integers(0, ANEW)) == 0 and not call.output and os.geteuid() != 0
    with as_before(own):
        said = (started if anew else forked)(call)
    if call.output and said.out == "":  # what was said went nowhere: it may end in any way but a traceback
        judged(replace(call, closed=(2,)), said)
        return TAKEN
    outcome = judged(call, said)
    if outcome == TAKEN and not CHANGES_WORDS & changed.keys() and not call.output:
        _check_same(folder, tuple(words), said)
    return outcome


def _check_same(folder: Path, words: tuple[str, ...], said: Said) -> None:
    """In odd surroundings the same is said as in plain ones."""
    expected = reference(folder, words)
    ensure(said.status == expected.status, f"{words}: status {said.status} in place of {expected.status}")
    ensure(said.out == expected.out, f"{words}: said {said.out[:300]!r} in place of {expected.out[:300]!r}")


@cache
def reference(folder: Path, words: tuple[str, ...]) -> Said:
    """Return what a command says in plain surroundings."""
    user = NOBODY if os.geteuid() == 0 else None
    return forked(Call(words, str(_places(folder)["the folder"][1]), _plain(folder), user=user))


def _plain(folder: Path) -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder / "home"), "COLUMNS": "100",
            "LANG": "C.UTF-8", "TMPDIR": str(folder / "temporary"), "GIT_CEILING_DIRECTORIES": str(folder),
            "LEAKLAB_MIRROR": str(folder / "no-mirror")}  # fmt: skip


@cache
def _places(folder: Path) -> dict[str, tuple[Path, Any]]:
    """Return place -> the project and the path by which it is reached; all are made once."""
    open_to_all(folder)
    top = folder / "surroundings"
    first = make_project(top / "plain")
    for name in ("home", "temporary"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    found: dict[str, tuple[Path, Any]] = {"the folder": (first, first)}
    (top / "link").symlink_to(first)
    (top / "second").symlink_to("link")
    found |= {"through a link": (first, top / "link"), "through two links": (first, top / "second")}
    names = {"with a blank": "a b  c", "with bytes": os.fsdecode(b"M\xfcller"), "with a line break": "a\nb",
             "with a bracket": "[red]{x}", "read-only": "closed to writers"}  # fmt: skip
    for place, name in names.items():
        shutil.copytree(first, top / name, symlinks=True, ignore=lambda _, own: [one for one in own if "closed" in one])
        found[place] = top / name, top / name
    if os.geteuid() == 0:
        for own, _ in set(found.values()) - {found["read-only"]}:
            for path in (own, *own.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    else:
        found["read-only"][0].chmod(0o555)
    return found
