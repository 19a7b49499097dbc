"""The usual code: double backward through the network and torch.optim.LBFGS, from one start after another.

A start ends, and another is made, by the rules of this project's search: without them the loop would have none.
"""

from collections.abc import Callable

import torch
from attack_speed.objectives import gradients
from torch import Tensor

from leaklab.attacks.base import victim
from leaklab.attacks.search.restarts import StopRules
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.streams import stream
from time_to_picture.workers.measuring import Job, Outcome, labels_of, measure
from time_to_picture.workers.meter import Meter, Spent

STEPS, RULES = 300, StopRules()


class Patience:
    """Says when a start has stagnated: so many steps that lowered its best value by less than a fraction."""

    def __init__(self) -> None:
        self._reference, self._since = float("inf"), 0

    def over(self, value: float) -> bool:
        """Hear the value of the next step, and tell whether the start is to end."""
        if value < (1 - RULES.improvement) * self._reference:
            self._reference, self._since = value, 0
        else:
            self._since += 1
        return value != value or self._since >= RULES.patience


class DeepLeakage:
    """One update under DLG, or under iDLG where the labels are given.

    Args:
        network: the victim.
        observed: its gradients.
        shape: (B, C, H, W).
        classes: how many.
        labels: [B], or None to search them.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        observed: list[Tensor],
        shape: tuple[int, ...],
        classes: int,
        labels: Tensor | None,
    ) -> None:
        self.network, self.observed, self.shape, self.classes, self.labels = network, observed, shape, classes, labels

    def value(self, images: Tensor, logits: Tensor) -> Tensor:
        """Return the squared distance of the gradients, with a graph."""
        targets = torch.softmax(logits, -1) if self.labels is None else self.labels
        found = gradients(self.network, images, targets, graph=True)
        return torch.stack([((one - seen) ** 2).sum() for one, seen in zip(found, self.observed, strict=True)]).sum()

    def start(self, number: int, steps: int, heard: Callable[[float, Tensor], None]) -> float:
        """Search from one start and return its smallest value; every evaluation is heard of."""
        draws = stream(number, "plain")
        images = draws.normal(*self.shape).float().requires_grad_()
        logits = draws.normal(self.shape[0], self.classes).float().requires_grad_()
        unknowns = [images, logits] if self.labels is None else [images]
        optimizer = torch.optim.LBFGS(unknowns, lr=1, history_size=100)
        best, patience = float("inf"), Patience()

        def closure() -> Tensor:
            nonlocal best
            optimizer.zero_grad()
            value = self.value(images, logits)
            value.backward(inputs=unknowns)
            best = min(best, value.item())
            heard(value.item(), images)
            return value

        for _ in range(steps):
            optimizer.step(closure)
            if patience.over(best):
                break
        return best


def attacked(job: Job, observation: Observation, knowledge: Knowledge, meter_of: Callable[[], Meter]) -> Outcome:
    """Attack; see ``measuring.measure``."""

    def prepared() -> DeepLeakage:
        network = victim(observation, knowledge, job.attack).requires_grad_()
        seen = [value[0] for value in observation.update.values()]
        shape = (job.case.batch, *knowledge.require("input_shape"))
        labels = torch.tensor(labels_of(observation, knowledge)) if job.attack == "idlg" else None
        return DeepLeakage(network, seen, shape, knowledge.require("num_classes"), labels)

    prepared().start(0, 1, lambda value, images: None)
    meter = meter_of()
    searched(prepared(), meter)
    return Outcome(meter)


def searched(leakage: DeepLeakage, meter: Meter) -> None:
    """Search from one start after another, until one matches or the time is over."""
    accepted = RULES.accepted * sum(float((seen**2).sum()) for seen in leakage.observed)

    def heard(value: float, images: Tensor) -> None:
        meter.offer([0], [value], lambda places: images.detach()[None])

    try:
        best = float("inf")
        while best > accepted and meter.missing():
            meter.searches += 1
            best = min(best, leakage.start(meter.searches, STEPS, heard))
    except Spent:
        return


if __name__ == "__main__":
    measure(attacked)
