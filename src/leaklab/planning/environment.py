"""The environment of every step that Snakemake starts."""

import os
import sys
from pathlib import Path

from leaklab.records.config import Config
from leaklab.records.environment import CHECKPOINT_SECONDS


def prepare(config: Config) -> None:
    """Set the environment that jobs inherit; what is set already wins over the configuration."""
    # `python` in the rules is the one that runs Snakemake, whether or not its environment is activated
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # two processes of one thread beat one process of two threads on every workload measured
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault(CHECKPOINT_SECONDS, str(config.checkpoint_seconds))
    if config.mirror:
        os.environ.setdefault("LEAKLAB_MIRROR", config.mirror)
