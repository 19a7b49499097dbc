"""The environment of every step that Snakemake starts."""

import os
import sys
from pathlib import Path


def prepare(mirror: str | None) -> None:
    """Set the environment that jobs inherit.

    Args:
        mirror: data mirror of the configuration; LEAKLAB_MIRROR wins over it.
    """
    # `python` in the rules is the one that runs Snakemake, whether or not its environment is activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # two processes of one thread beat one process of two threads on every workload measured
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if mirror:
        os.environ.setdefault("LEAKLAB_MIRROR", mirror)
