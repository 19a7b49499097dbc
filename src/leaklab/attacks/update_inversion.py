"""The objective of update matching: dummy samples train as the client did, and the updates are compared.

Both updates are taken in units of a gradient, divided by minus the sum of the prescribed rates, so that the loss is of
the size of a gradient matching loss (conditioning only); with one step it is the gradient matching loss.

Source: OUTPOST paper, section III (delta matching); "Inverting Gradients - How easy is it to break privacy in federated
learning?", section 6.
"""

from torch import Tensor, nn

from leaklab.attacks.inversion import Inversion
from leaklab.attacks.matching import Distance
from leaklab.attacks.simulation import LocalSteps, simulated_delta


class UpdateInversion(Inversion):
    """Matching loss of S trials whose clients did several local steps, as a function of their unknowns [S, n].

    Args:
        network: the broadcast weights, in evaluation state (or ``models/batch_statistics.py``); no parameter asks for a
            gradient.
        observed: updates in units of a gradient, one [T, ...] per parameter in the network's order.
        shape: (n, C, H, W) of all samples of a client's round.
        num_classes: K.
        distance: see ``matching``.
        labels: [T, n] fixed labels, or None to search soft labels jointly.
        rates: [E], prescribed for each local step.
        steps: the client's optimizer and batch order.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None,
        rates: Tensor,
        steps: LocalSteps,
    ) -> None:
        super().__init__(network, observed, shape, num_classes, distance, labels)
        unit = -float(rates.sum())

        def updates(network: nn.Sequential, images: Tensor, targets: Tensor) -> list[Tensor]:
            delta = simulated_delta(network, images, targets, rates.to(images).expand(len(images), -1), steps)
            return [value / unit for value in delta.values()]

        self._gradients = updates
