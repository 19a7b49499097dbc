"""Python's collector of garbage, which would look through a large DAG again and again, and find next to nothing."""

import atexit
import gc

OBJECTS = 100_000
"""Objects that are new when it looks through these; Python's own 700 are a few jobs of Snakemake."""


def collect_rarely() -> None:
    """Let the collector of this process look for garbage seldom, and not when the process ends.

    It is for objects that refer to one another in a circle, of which a DAG of ten thousand jobs leaves some megabytes:
    all others are freed when the last reference goes. What is there at the end, the system takes back at once.
    """
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
