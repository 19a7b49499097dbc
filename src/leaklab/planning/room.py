"""What Snakemake needs of a machine before it reads a workflow: a cache, room for temporary files, a user's name.

Upstream, each of them that is missing ends a call in a traceback: a home folder that may not be written, a TMPDIR that
is gone or full, where the solver of the scheduler leaves half a file, a user without a name, as in containers, and
braces in the path of the folder, which are taken for names of wildcards. Not reported, seen in snakemake 9.27. What has
a substitute gets it, in one line; the rest ends the call in one, before anything is started.
"""

import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from leaklab.records.errors import UserError
from leaklab.records.os_errors import reason

NEEDED = 2**20
"""Bytes that have to fit into a folder: a quota or a full disk is seen only when something is written."""
CACHE, OF_TOOL = Path(".snakemake/cache"), Path("snakemake/source-cache/snakemake-runtime-cache")
"""The substitute of a user's cache folder, and what Snakemake makes below one."""
TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
NAMES_OF_TEMPORARY = ("TMPDIR", "TEMP", "TMP")
STATE = Path(".snakemake")
GIVE, NOTHING = "give yourself the right to, or work in a copy of your own", "nothing was started"


def make_room() -> Iterator[str]:
    """See to what Snakemake needs, for this process and those of its jobs, and yield a line for each substitute.

    Raises:
        UserError: something is missing that has no substitute here.
    """
    _have_a_name()
    yield from _temporary_folders()
    yield from _cache()


def refuse_unfit_folder(root: Path) -> None:
    """Refuse to work in a folder in which Snakemake cannot.

    Raises:
        UserError: it has braces in its path, or Snakemake's own records may not be written.
    """
    if set("{}") & set(str(root)):
        raise UserError(
            f"{root}: Snakemake takes braces in the path of its folder for names of wildcards: rename the folder, or "
            f"work in another; {NOTHING}"
        )
    places = [root / STATE, *sorted(path for path in (root / STATE).glob("*/"))]
    for place in places:
        if why := problem_of(place, make=place == places[0], size=1):
            raise UserError(f"{why}: {GIVE}; {NOTHING}")


def problem_of(folder: Path, make: bool = False, size: int = NEEDED, shown: Path | None = None) -> str:
    """Return why nothing can be written into a folder; empty where it can.

    Args:
        folder: in question.
        make: whether it is made where it is missing.
        size: bytes that are written, and removed again.
        shown: the folder that is named in its place, which the user knows; None for none.
    """
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(size))
    except OSError as error:
        return reason(OSError(error.errno, error.strerror, str(shown or folder)))  # not what the file would be called
    return ""


def _have_a_name() -> None:
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = str(os.getuid())


def _temporary_folders() -> Iterator[str]:
    """See to it that the folders for temporary files, by whatever name a program asks for them, can be used."""
    named = [name for name in NAMES_OF_TEMPORARY if os.environ.get(name)]
    for name in named or NAMES_OF_TEMPORARY[:1]:
        folder = Path(os.environ.get(name) or TEMPORARY[0])
        why = problem_of(folder)
        if not why:
            continue
        other = next((place for place in TEMPORARY if place != folder and not problem_of(place)), None)
        if other is None:
            raise UserError(f"no room for temporary files: {why}: let TMPDIR name another folder; {NOTHING}")
        os.environ[name], tempfile.tempdir = str(other), None
        yield f"temporary files go to {other}, as {name} cannot be used: {why}"


def _cache() -> Iterator[str]:
    """See to it that Snakemake can keep what it reads; it looks for the user's cache by ``XDG_CACHE_HOME``."""
    given, own = os.environ.get("XDG_CACHE_HOME"), Path("~/.cache")
    try:
        own = Path(given) if given else own.expanduser()
        why = problem_of(own / "snakemake" / OF_TOOL, make=True, size=1, shown=own)
    except RuntimeError:  # neither HOME nor the system's list of users tells it
        why = "no home folder of yours is known"
    if not why:
        return
    other = CACHE.absolute()
    if problem := problem_of(other / "snakemake" / OF_TOOL, make=True, size=1, shown=other.parent):
        raise UserError(f"{problem}, nor {own}: {GIVE}; {NOTHING}")
    os.environ["XDG_CACHE_HOME"] = str(other)
    yield f"Snakemake's cache is {CACHE}, as {why}; XDG_CACHE_HOME names another"
