"""What the system says where a file cannot be read or written, as one line for the user: the path and what to do."""

import errno
import os
import pwd
from pathlib import Path

LONGEST = 200
"""Characters of a path that are shown: a name may be too long because something else was pasted in its place."""
FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = (errno.EACCES, errno.EPERM)


def line_of(error: OSError) -> str:
    """Return one line for an error of the system, whatever raised it: what is wrong, and what to do where one can."""
    return ": ".join(filter(None, (reason(error), _remedy(error))))


def reason(error: OSError) -> str:
    """Return what is wrong, and with which path."""
    path, said = path_of(error), " ".join((error.strerror or str(error) or type(error).__name__).split())
    if error.errno in FULL:
        return f"the disk is full ({path})" if path else "the disk is full"
    if not path:
        return " ".join(str(error).split()) or said
    if error.errno in CLOSED:
        return f"{path} may not be read or written{_whose(path)}"
    words = {
        errno.EROFS: f"{path} lies on a file system that is mounted read-only",
        errno.ENOENT: f"{path} is not there",
        errno.ENAMETOOLONG: f"{path}: no file has so long a name",
        errno.EISDIR: f"{path} is a folder, and no file",
        errno.ENOTDIR: f"{path}: a file lies where a folder is needed",
        errno.EEXIST: f"{path} is in the way",
    }
    return words.get(error.errno or 0, f"{path}: {said}")


def _remedy(error: OSError) -> str:
    if error.errno in FULL:
        return "free some space and run the same command again"
    remedies = {
        **dict.fromkeys(CLOSED, "give yourself the right to, or work in a copy of your own"),
        errno.EROFS: "work in a copy that may be written",
        errno.ENOENT: f"look at the name, and at the folder where you are ({_here()})",
        errno.EISDIR: "name a file",
        errno.ENOTDIR: "move it away",
        errno.EEXIST: "move it away",
    }
    return remedies.get(error.errno or 0, "") if path_of(error) else ""


def path_of(error: OSError) -> str:
    """Return the path that an error names, cut where it is too long to be read; empty where it names none."""
    named = error.filename if error.filename is not None else error.filename2
    if named is None or isinstance(named, int):
        return ""
    text = os.fsdecode(named).replace("\n", " ")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def owner(path: Path) -> str:
    """Return the name of the user to whom the nearest thing on a path that is there belongs; empty where unknown."""
    for place in (path, *path.absolute().parents):
        try:
            number = place.stat().st_uid
        except OSError:
            continue
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return f"user {number}"
    return ""


def _whose(path: str) -> str:
    """Return to whom it belongs, if not to the user."""
    name = owner(Path(path))
    return f" (it belongs to {name})" if name and name != _own_name() else ""


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was deleted under the user
        return "which is gone: cd into another"
