"""LPIPS v0.1 with the AlexNet backbone."""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.metrics.perceptual import PerceptualDistance


@dataclass(frozen=True)
class LpipsAlex(PerceptualDistance):
    """LPIPS-Alex; see ``PerceptualDistance``."""

    net: ClassVar[str] = "alex"
    weights: ClassVar[str] = "alexnet"


PLUGIN = LpipsAlex
