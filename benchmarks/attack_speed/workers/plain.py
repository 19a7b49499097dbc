"""The usual code: double backward through the network and torch's optimizers, one trial after the other."""

import torch
from torch import Tensor

from attack_speed.objectives import objective
from attack_speed.workers.measuring import Meter, OneByOne, Reached, measure
from attack_speed.workloads import INNER

RATE = 0.1


class Plain(OneByOne):
    """An ``Attacker``."""

    def objective(self) -> list[float]:
        """See ``Attacker.objective``."""
        return [
            self._value(trial, *self.material.split(self.material.points[trial], trial)).item()
            for trial in range(self.workload.trials)
        ]

    def start(self, trial: int, number: int, iterations: int, meter: Meter) -> float:
        """See ``OneByOne.start``."""
        images, labels = self.material.split(self.material.starts[number, trial].clone(), trial)
        run = self._deep_leakage if self.workload.attack == "dlg" else self._inverting_gradients
        return run(trial, images, labels, iterations, meter)

    def _value(self, trial: int, images: Tensor, labels: Tensor) -> Tensor:
        return objective(self.workload.attack, self.material.network, self.material.observed(trial), images, labels)

    def _deep_leakage(self, trial: int, images: Tensor, logits: Tensor, iterations: int, meter: Meter) -> float:
        unknowns = [images.requires_grad_(), logits.requires_grad_()]
        optimizer = torch.optim.LBFGS(unknowns, lr=1, history_size=100)
        best = float("inf")

        def closure() -> Tensor:
            nonlocal best
            _note(meter, trial, images)
            optimizer.zero_grad()
            value = self._value(trial, images, logits)
            value.backward(inputs=unknowns)
            best = min(best, value.item())
            return value

        for _ in range(iterations // INNER):
            value = optimizer.step(closure)
            meter.stepped()
            if not value.isfinite():
                break
        return best

    def _inverting_gradients(self, trial: int, images: Tensor, labels: Tensor, iterations: int, meter: Meter) -> float:
        images.requires_grad_()
        optimizer = torch.optim.Adam([images], lr=RATE)
        milestones = [-(-iterations * eighths // 8) for eighths in (3, 5, 7)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones)
        best = float("inf")
        for _ in range(iterations):
            _note(meter, trial, images)
            value = self._value(trial, images, labels)
            (slope,) = torch.autograd.grad(value, images)
            images.grad = slope.sign()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                images.clamp_(0, 1)
            best = min(best, value.item())
            meter.stepped()
        return best


def _note(meter: Meter, trial: int, images: Tensor) -> None:
    if meter.evaluating(images.flatten(1), [trial])[0]:
        raise Reached


def main() -> None:
    """Measure the workload in the first argument with the material in the second."""
    measure(Plain)


if __name__ == "__main__":
    main()
