"""LPIPS v0.1 with the SqueezeNet 1.1 backbone."""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.metrics.perceptual import PerceptualDistance


@dataclass(frozen=True)
class LpipsSqueeze(PerceptualDistance):
    """LPIPS-Squeeze; see ``PerceptualDistance``."""

    net: ClassVar[str] = "squeeze"
    weights: ClassVar[str] = "squeezenet1.1"


PLUGIN = LpipsSqueeze
