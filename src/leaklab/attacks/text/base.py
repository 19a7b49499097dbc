"""What every attack plug-in on text is: observation and knowledge in, sentences out."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from leaklab.attacks.base import Budget, Streams
from leaklab.attacks.text.matching_attack import TextReconstruction
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements


@dataclass(frozen=True)
class TextCase:
    """All that an attack on text is given.

    Attributes:
        observation: T trials of one sentence each.
        knowledge: what the threat model grants.
        budget: what may be spent: steps per start, and starts.
        streams: the attack's random draws; those of a trial depend on its number only.
        labels: ``searched``, ``inferred`` or ``known`` (see ``records/text_specs.py``).
    """

    observation: Observation
    knowledge: Knowledge
    budget: Budget
    streams: Streams
    labels: str = "searched"


class TextAttack(Protocol):
    """A plug-in of ``attacks/text``; a frozen dataclass whose fields are its settings.

    Attributes:
        requirements: what the attack asks for, read from its source while planning.
    """

    requirements: ClassVar[Requirements]

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct the private sentence of every trial.

        Raises:
            UserError: a fact is needed and withheld, or the attack does not fit the observation.
        """
        ...
