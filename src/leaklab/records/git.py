"""What git says of the project's folder; where it fails, why, as a failure of git is no absence of commits."""

import os
import subprocess
from pathlib import Path

from leaklab.records.errors import UserError
from leaklab.records.os_errors import owner

CEILINGS = "GIT_CEILING_DIRECTORIES"
SECONDS = 60


class NoCheckoutError(UserError):
    """The folder is no checkout of git: there is nothing that git could know of it."""


def stay_here(folder: Path = Path()) -> None:
    """Let git, for this process and those that it starts, know of no repository around the project's folder.

    An archive of the project may be unpacked into another repository, whose commits say nothing of what is here.
    """
    above = str(folder.absolute().parent)
    known = os.environ.get(CEILINGS, "")
    if above not in known.split(os.pathsep):
        os.environ[CEILINGS] = os.pathsep.join(filter(None, (known, above)))


def asked(*arguments: str, root: Path = Path(), given: bytes | None = None) -> bytes:
    """Return what git prints.

    Args:
        arguments: of git.
        root: the folder in which it runs.
        given: its standard input.

    Raises:
        NoCheckoutError: the folder is no checkout.
        UserError: git is missing, does not answer, or refuses; the line says which.
    """
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, input=given, capture_output=True, timeout=SECONDS, check=False,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except FileNotFoundError:
        raise UserError("git is not to be found here: install it, or put it on the PATH") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"git does not answer: {error}") from None
    if done.returncode:
        raise _refusal(done.stderr.decode(errors="replace"), root)
    return done.stdout


def unknown_commit(root: Path = Path()) -> str:
    """Return why git does not tell the commit of a checkout; empty where it does, and of a folder that is none."""
    try:
        asked("rev-parse", "HEAD", root=root)
    except NoCheckoutError:
        return ""
    except UserError as error:
        return str(error)
    return ""


def _refusal(said: str, root: Path) -> UserError:
    if "not a git repository" in said:
        return NoCheckoutError("this folder is no checkout of git")
    if "dubious ownership" in said:
        return UserError(
            f"git does not answer in a folder that belongs to {owner(root) or 'another user'}: if you trust it, git "
            f"config --global --add safe.directory '{root.resolve()}'"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return UserError(f"git: {next(iter(lines), 'failed without a word').removeprefix('fatal: ')}")
