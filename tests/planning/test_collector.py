"""The collector of garbage looks seldom, and not at the end."""

import subprocess
import sys

PROGRAM = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 0))  # the last registered is the first called
from leaklab.planning.collector import OBJECTS, collect_rarely
collect_rarely()
print(gc.get_threshold()[0] == OBJECTS, gc.isenabled())
"""


def test_garbage_is_collected_still_but_not_at_the_end():
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "True", "True"]
