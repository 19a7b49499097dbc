"""Clients that a benchmark reads are read here too, smaller."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
