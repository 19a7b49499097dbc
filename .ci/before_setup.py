"""Refuse in one line what would end the installation after minutes. Any Python 3 can read this file."""

import os
import sys
from pathlib import Path

OLDEST = (3, 11)


def refusal(version, folder, environment):
    """Return why nothing can be set up here, with what to do; empty where it can.

    Args:
        version: of Python, major and minor.
        folder: in which make works.
        environment: name of the virtual environment in it.
    """
    if version < OLDEST:
        return "leaklab needs Python 3.11 or newer: make PYTHON=python3.11 ..."
    if set("{}") & set(folder):
        return (
            f"{folder!a}: Snakemake and older installers take braces in a path for names of something else: rename the "
            "folder, or clone into another"
        )
    own = Path(folder, environment)
    place = own if own.is_dir() else Path(folder)
    if not os.access(str(place), os.W_OK | os.X_OK):
        return f"{str(place)!a} is not yours to write: clone into a folder of your own, or ask its owner"
    return ""


if __name__ == "__main__":
    sys.exit(refusal(sys.version_info[:2], str(Path.cwd()), sys.argv[1]) or 0)
