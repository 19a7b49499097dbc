"""What a call of Snakemake looks after before its first job: environment, calls before it, folders it writes into.

A call that works leaves a file whose name says machine, process and when it began, and takes it away when it ends: so
the lock of one that was killed can be told from that of one that lives, and removed.
"""

import atexit
import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from leaklab.records.config import Config
from leaklab.records.environment import CHECKPOINT_SECONDS
from leaklab.records.errors import UserError

CALLS, LOCKS = Path(".snakemake/calls"), Path(".snakemake/locks")
STEPS = "leaklab.steps."
BEGAN = 19
"""Place of the start time in ``/proc/<pid>/stat``, counted after the name of the program."""


def prepare(config: Config) -> None:
    """Set the environment that jobs inherit; what is set already wins over the configuration."""
    # `python` in the rules is the one that runs Snakemake, whether or not its environment is activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # two processes of one thread beat one process of two threads on every workload measured
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault(CHECKPOINT_SECONDS, str(config.checkpoint_seconds))
    if config.mirror:
        os.environ.setdefault("LEAKLAB_MIRROR", config.mirror)


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
    """Return when a process began, in ticks since the machine did; empty where there is none.

    Not as psutil has it, in seconds since 1970: those change when the clock is set, and a living call would look dead.
    """
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[BEGAN]


def _jobs_of(root: Path) -> list[int]:
    """Return the processes of this machine that run a step in the folder."""
    import psutil  # when a call was killed, and not in each job's process

    folder = str(root.resolve())
    here = (one for one in psutil.process_iter(["cmdline", "cwd"]) if one.info["cwd"] == folder)
    return sorted(one.pid for one in here if any(word.startswith(STEPS) for word in one.info["cmdline"] or []))


def refuse_closed_folders(outputs: Iterable[object]) -> None:
    """Refuse to start jobs whose outputs could not be written: Snakemake would end in the midst of the others.

    Args:
        outputs: paths of all files that are to be made.

    Raises:
        UserError: a folder may not be written; it names the first of them.
    """
    folders = {_nearest(Path(str(path)).parent) for path in outputs}
    closed = sorted(str(folder) for folder in folders if not os.access(folder, os.W_OK | os.X_OK))
    if closed:
        more = f" and {len(closed) - 1} more folders" if closed[1:] else ""
        raise UserError(
            f"{closed[0]}{more} may not be written: give yourself the right to (chmod u+w), or free the place of a "
            "file system that is mounted read-only, and run the same command again; nothing was started"
        )


def _nearest(folder: Path) -> Path:
    """Return the folder, or the one that is there and in which it would be made."""
    while not folder.exists():
        folder = folder.parent
    return folder
