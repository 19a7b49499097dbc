"""This project's engine on a machine without a compiler."""

import os

from attack_speed.workers import ours
from leaklab.models.lanes.library import COMPILER, OFF

if __name__ == "__main__":
    os.environ[COMPILER] = OFF
    ours.main()
