"""One virtual environment per peer, made by pip from exact pins when it is first needed."""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).parents[1]
VENVS, REQUIREMENTS = FOLDER / ".venvs", FOLDER / "requirements"
# these see the project's packages behind their own, so that they run the very same torch and it is not stored again
BORROWING = ("pfl", "flower", "breaching", "opacus")


class NotInstalledError(Exception):
    """The reason, in one line, why a peer cannot be measured here."""


def python_of(name: str | None) -> Path:
    """Return the interpreter of an environment and set it up if it is missing or its pins changed.

    Args:
        name: of the environment; None is the project's own.

    Raises:
        NotInstalledError: it could not be set up.
    """
    if name is None:
        return Path(sys.executable)
    folder, requirements = VENVS / name, REQUIREMENTS / f"{name}.txt"
    project = sysconfig.get_path("purelib") if name in BORROWING else ""
    wanted = hashlib.sha256(f"{sys.version}\n{project}\n{requirements.read_text('utf-8')}".encode()).hexdigest()
    python, installed = folder / "bin" / "python", folder / "installed"
    if not installed.is_file() or installed.read_text("utf-8") != wanted:
        print(f"setting up {name} (once; up to some minutes)", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _must(sys.executable, "-m", "venv", str(folder))
        if project:
            [packages] = folder.glob("lib/*/site-packages")
            (packages / "project.pth").write_text(f"{project}\n", "utf-8")
        _must(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements))
        installed.write_text(wanted, "utf-8")
    return python


def _must(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise NotInstalledError(_why(done.stderr) or f"{Path(command[0]).name} ended with {done.returncode}")


def _why(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1]
