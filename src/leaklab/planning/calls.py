"""Calls of Snakemake in this folder: which of them live, so that the lock of one that was killed can be removed.

A call that works leaves a file whose name says machine, process and when it began, and takes it away when it ends.
"""

import atexit
import os
import platform
import shutil
from pathlib import Path

CALLS, LOCKS = Path(".snakemake/calls"), Path(".snakemake/locks")
STEPS = "leaklab.steps."
BEGAN = 19
"""Place of the start time in ``/proc/<pid>/stat``, counted after the name of the program."""


def note_call(root: Path = Path()) -> None:
    """Note that this process works in the folder, until it ends."""
    path = root.absolute() / CALLS / f"{platform.node()}.{os.getpid()}.{_began(os.getpid())}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    atexit.register(path.unlink, missing_ok=True)


def free_lock_of_killed_call(root: Path = Path()) -> str:
    """Remove Snakemake's lock if all calls that can hold it were killed on this machine and none of their jobs works.

    Returns:
        what was done or why not, for the user; empty where there is nothing to say.
    """
    notes = sorted((root / CALLS).glob("*")) if any((root / LOCKS).glob("*")) else []
    if not notes or any(_may_live(note.name) for note in notes):
        return ""
    if jobs := _jobs_of(root):
        numbers = ", ".join(map(str, jobs))
        return (
            f"an earlier call was killed, but jobs of it still work (processes {numbers}): wait for them, or end them"
        )
    shutil.rmtree(root / LOCKS)
    for note in notes:
        note.unlink(missing_ok=True)
    return "an earlier call was killed: its lock is removed, and what it finished is kept"


def _may_live(name: str) -> bool:
    """A call on another machine cannot be seen from here, so it counts as alive."""
    machine, process, began = name.rsplit(".", 2)
    return machine != platform.node() or _began(int(process)) == began


def _began(process: int) -> str:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[BEGAN]


def _jobs_of(root: Path) -> list[int]:
    """Return the processes of this machine that run a step in the folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(word.startswith(STEPS) for word in words) and (folder / "cwd").resolve() == root.resolve():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile, or belongs to somebody else
            continue
    return sorted(found)
