"""CENTAUR: first the client's own classifier moves, then the shared extractor under the new classifier.

Source: "Share Your Representation Only: Guaranteed Improvement of the Privacy-Utility Tradeoff in Federated Learning",
as HyperFL's table 1 compares with it; the original shortens and noises what a client sends instead of each sample's
gradient. The noise is defense ``dp-sgd``, which sees the extractor only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from leaklab.federated.algorithms.base import Phase
from leaklab.federated.algorithms.ppsgd import Ppsgd
from leaklab.records.bounds import Natural, Rate


@dataclass(frozen=True)
class Centaur(Ppsgd):
    """As PPSGD, in two phases; the first one sends nothing and gets no noise.

    Attributes:
        classifier_steps: steps of the first phase; one epoch of 600 samples in batches of 50.
        classifier_rate: its rate.
    """

    classifier_steps: Natural = 12
    classifier_rate: Rate = 0.1

    def phases(self, local_steps: int) -> Sequence[Phase]:
        """Return the classifier's steps and the extractor's."""
        return Phase(self.classifier_steps, self._is_private, self.classifier_rate), Phase(local_steps, self._is_shared)


PLUGIN = Centaur
