"""What a generative attack is: an attack that has to be given a generator first."""

from typing import ClassVar, Protocol

from leaklab.attacks.base import Attack
from leaklab.models.generators.base import Generator
from leaklab.observations.declared import Requirements


class GenerativeAttack(Protocol):
    """A plug-in that searches among the images that a generator can make; a frozen dataclass of settings.

    Attributes:
        requirements: see ``Attack``; with ``generator=True``.
    """

    requirements: ClassVar[Requirements]

    def using(self, generator: Generator) -> Attack:
        """Return the attack with its generator, which is frozen and makes the victim's images and classes."""
        ...
