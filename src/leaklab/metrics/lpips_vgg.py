"""LPIPS v0.1 with the VGG-16 backbone."""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.metrics.perceptual import PerceptualDistance


@dataclass(frozen=True)
class LpipsVgg(PerceptualDistance):
    """LPIPS-Vgg; see ``PerceptualDistance``."""

    net: ClassVar[str] = "vgg"
    weights: ClassVar[str] = "vgg16"


PLUGIN = LpipsVgg
