"""How often Python's collector looks for garbage; commands of ours ask for it too, so it imports nothing."""

import atexit
import gc

NEW_OBJECTS = 100_000
"""Objects that are new when Python's collector looks through these; its own 700 are a few jobs of Snakemake."""


def collect_rarely() -> None:
    """Let the collector of this process look for garbage seldom, and not when the process ends.

    Upstream: Python's collector looks through the whole DAG again and again, and finds next to nothing: of ten thousand
    jobs, some megabytes of objects that refer to one another in a circle. All others are freed when the last reference
    goes, and what is there at the end, the system takes back at once. Not reported, seen in snakemake 9.27.
    """
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def collect_never() -> None:
    """Let this process look for no garbage: a command that reads and ends has some megabytes of it, and they cost time.

    Measured on ``leaklab report --scale small``: a seventh of its processor time, with the same memory at most.
    """
    gc.disable()
    atexit.register(gc.freeze)
