"""This project's engine: the parts that its attacks 'dlg' and 'ig' are made of, on all trials at once."""

import torch
from torch import Tensor

from attack_speed.material import Material
from attack_speed.objectives import TV_WEIGHT, border_variation
from attack_speed.workers.measuring import Meter, measure
from attack_speed.workloads import CLASSES, INNER, Workload
from leaklab.attacks.matching.cosine import CosineInversion
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.search.lbfgs import LbfgsSettings
from leaklab.attacks.search.priors import WithPrior
from leaklab.attacks.search.restarts import Objective, SearchSettings, search
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam


class Ours:
    """An ``Attacker``."""

    def __init__(self, workload: Workload, material: Material) -> None:
        self.workload, self.material = workload, material
        network, observed = material.network.requires_grad_(requires_grad=False), material.gradients
        shape, labels = (1, *workload.image_shape), material.labels[:, None]
        self.inversion: Inversion
        self.minimised: Objective
        if workload.attack == "dlg":
            self.minimised = self.inversion = Inversion(network, observed, shape, CLASSES, squared_l2)
        else:
            self.inversion = CosineInversion(network, observed, shape, CLASSES, labels)
            self.minimised = WithPrior(
                self.inversion, border_variation, TV_WEIGHT, shape, self.inversion.loss_of_nothing()
            )

    def objective(self) -> list[float]:
        """See ``Attacker.objective``."""
        values: list[float] = self.minimised(self.material.points, torch.arange(self.workload.trials))[0].tolist()
        return values

    def attack(self, iterations: int, starts: int, meter: Meter) -> list[float]:
        """See ``Attacker.attack``."""

        def start_of(row: int, number: int) -> Tensor:
            return self.material.starts[number, row]

        watched = _Watched(self.minimised, meter)
        if self.workload.attack == "dlg":
            outer = iterations // INNER
            # no rule ends a start early: the others have none
            settings = SearchSettings(outer, starts, matched=0, accepted=0, patience=outer + 1, improvement=0)
            scale = self.inversion.loss_of_nothing()
            found = search(watched, start_of, scale, settings, LbfgsSettings(max_iter=INNER))
        else:
            found = signed_adam(watched, start_of, self.workload.trials, SignedAdamSettings(iterations, starts))
        meter.ended()
        best: list[float] = found.losses.amin(1).tolist()
        return best


class _Watched:
    """An objective under a meter; a trial that has reached the target gets the value 0, which ends its search."""

    def __init__(self, objective: Objective, meter: Meter) -> None:
        self._objective, self._meter = objective, meter

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        there = self._meter.evaluating(points, rows.tolist())
        loss, derivative = self._objective(points, rows)
        return loss.masked_fill(there, 0.0), derivative


def main() -> None:
    """Measure the workload in the first argument with the material in the second."""
    measure(Ours)


if __name__ == "__main__":
    main()
