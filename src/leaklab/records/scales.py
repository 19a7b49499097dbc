"""The scales, apart from all that is read of files: to name one, a command need not import what validates YAML."""

from typing import Literal

Scale = Literal["demo", "small", "paper"]
SCALES: tuple[Scale, ...] = ("demo", "small", "paper")
