"""This project's engine on a machine without a compiler."""

import os

from leaklab.models.lanes.library import COMPILER, OFF
from training_speed.workers import ours

if __name__ == "__main__":
    os.environ[COMPILER] = OFF
    ours.main()
