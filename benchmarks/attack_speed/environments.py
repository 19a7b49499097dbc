"""The environment of breaching: it borrows the project's torch, as the peers of the training benchmark do."""

from pathlib import Path

from training_speed import environments

BREACHING = "breaching"


def python_of(name: str | None) -> Path:
    """Return the interpreter of an environment, see ``training_speed.environments.python_of``.

    Raises:
        NotInstalledError: it could not be set up.
    """
    if BREACHING not in environments.BORROWING:
        environments.BORROWING = (*environments.BORROWING, BREACHING)
    return environments.python_of(name)
