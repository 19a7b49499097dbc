"""Peer breaching: its attacks 'analytic', 'deepleakage' and 'invertinggradients', run as its users do.

It returns the candidate after the step of the smallest value, so that is what it would return now. Two things are done
for it: its total variation, which knows three channels only, is told how many there are; and a start of its DLG that
stagnates ends by the rules of this project's search, so that another is made.
"""

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from typing import Any

import breaching
import torch
from attack_speed.workers.peer_breaching import SETUP
from omegaconf import OmegaConf
from torch import Tensor, nn

from leaklab.attacks.base import victim
from leaklab.observations.base import Knowledge, Observation
from time_to_picture.workers.measuring import Job, Outcome, labels_of, measure
from time_to_picture.workers.meter import Meter, Spent
from time_to_picture.workers.plain import RULES, Patience

CONFIGS = {"analytic": "analytic", "dlg": "deepleakage", "ig": "invertinggradients"}
IG_STEPS = (300, 1000, 3000, 24_000)
"""Its own number is the last one."""
DLG_STEPS = 1200


class Ended(Exception):  # noqa: N818 - nothing went wrong
    """A start has stagnated."""


class Breaching:
    """One update under one of its attacks.

    Args:
        job: which, and under what smoothing.
        observation: of one trial.
        knowledge: labels granted.
    """

    def __init__(self, job: Job, observation: Observation, knowledge: Knowledge) -> None:
        self.job, self.case = job, job.case
        self.network = victim(observation, knowledge, "breaching").requires_grad_()
        self.shape, classes = tuple(knowledge.require("input_shape")), knowledge.require("num_classes")
        self.labels = torch.tensor(labels_of(observation, knowledge))
        channels = self.shape[0]
        # the [0, 1] scale: no normalisation
        facts = {"modality": "vision", "task": "classification", "classes": classes, "shape": [*self.shape]}
        metadata = OmegaConf.create(facts | {"mean": [0.0] * channels, "std": [1.0] * channels})
        weights, buffers = list(self.network.parameters()), list(self.network.buffers())
        self.payload = [{"parameters": weights, "buffers": buffers, "metadata": metadata}]
        self.gradients, steps = [value[0] for value in observation.update.values()], None
        if self.case.steps > 1:
            rates = knowledge.assumed_rates("breaching")
            steps = {"lr": rates[0], "steps": len(rates), "data_per_step": self.case.batch}
            steps |= {"labels": [self.labels] * len(rates)}
            # of several steps it compares the weights after minus before
            self.gradients = [-sum(rates) * value for value in self.gradients]
        told = None if job.attack == "dlg" else self.labels
        self.known = {"num_data_points": self.case.batch, "labels": told, "local_hyperparams": steps}

    def start(self, number: int, steps: int, heard: Callable[[float, Tensor], None]) -> float:
        """Search from one start and return its smallest value; of every step of its optimizer is heard."""
        torch.manual_seed(number)
        attacker = self._attacker(steps)
        best = _listen(attacker, heard, Patience() if self.job.attack == "dlg" else None)
        shared = [{"gradients": self.gradients, "buffers": None, "metadata": self.known}]
        with suppress(Ended):
            attacker.reconstruct(self.payload, shared, server_secrets={})
        return best[0]

    def read(self) -> Tensor:
        """Return what its closed form for layers of the inputs' size makes of the update: [1, B, C, H, W]."""
        attacker = breaching.attacks.prepare_attack(self.network, nn.CrossEntropyLoss(), self._config(1), SETUP)
        shared = [{"gradients": self.gradients, "buffers": None, "metadata": self.known}]
        found, _ = attacker.reconstruct(self.payload, shared, server_secrets={})
        images: Tensor = found["data"].detach()[None]
        return images

    def ready(self, lengths: Sequence[int]) -> "Breaching":
        """Read the configurations of searches of such lengths, which takes a tenth of a second each."""
        for steps in lengths:
            self._config(steps)
        return self

    def _config(self, steps: int) -> Any:
        settings = []
        if self.job.attack != "analytic":
            settings.append(f"optim.max_iterations={steps}")
        if self.job.smoothing is not None:
            settings.append(f"regularization.total_variation.scale={self.job.smoothing}")
        return _config(CONFIGS[self.job.attack], *settings)

    def _attacker(self, steps: int) -> Any:
        attacker = breaching.attacks.prepare_attack(self.network, nn.CrossEntropyLoss(), self._config(steps), SETUP)
        for regularizer in attacker.regularizers:
            channels = self.shape[0]
            regularizer.groups, regularizer.weight = channels, regularizer.weight[: 2 * channels]
        return attacker


@cache
def _config(name: str, *settings: str) -> Any:
    with redirect_stdout(StringIO()):
        return breaching.get_attack_config(name, list(settings))


def _listen(attacker: Any, heard: Callable[[float, Tensor], None], patience: Patience | None) -> list[float]:
    """Tell of every step of its optimizer, and return where the smallest value will stand."""
    make, best = attacker._init_optimizer, [float("inf")]

    def made(candidates: list[Tensor]) -> Any:
        optimizer, schedule = make(candidates)
        step = optimizer.step

        def stepped(closure: Callable[[], Tensor]) -> Tensor:
            value: Tensor = step(closure)
            best[0] = min(best[0], float(value))
            heard(float(value), candidates[0])
            if patience is not None and patience.over(best[0]):
                raise Ended
            return value

        optimizer.step = stepped
        return optimizer, schedule

    attacker._init_optimizer = made
    return best


def attacked(job: Job, observation: Observation, knowledge: Knowledge, meter_of: Callable[[], Meter]) -> Outcome:
    """Attack; see ``measuring.measure``."""
    leakage = Breaching(job, observation, knowledge)
    if job.attack == "analytic":
        leakage.read()
        meter = meter_of()
        meter.searches, images = 1, Breaching(job, observation, knowledge).read()
        with suppress(Spent):
            meter.offer([0], [0.0], lambda places: images)
        return Outcome(meter)
    leakage.ready((DLG_STEPS, *IG_STEPS)).start(0, 2, lambda value, images: None)
    meter = meter_of()
    searched(job, Breaching(job, observation, knowledge), meter)
    return Outcome(meter)


def searched(job: Job, leakage: Breaching, meter: Meter) -> None:
    """Search from one start after another, longer ones of IG, until all is read or the time is over."""
    accepted = RULES.accepted * sum(float((seen**2).sum()) for seen in leakage.gradients) / 2
    lengths = iter(IG_STEPS)

    def heard(value: float, images: Tensor) -> None:
        meter.offer([0], [value], lambda places: images.detach()[None])

    try:
        best = float("inf")
        while meter.missing():
            steps = DLG_STEPS if job.attack == "dlg" else next(lengths, None)
            if steps is None or (job.attack == "dlg" and best <= accepted):
                return
            meter.searches += 1
            best = min(best, leakage.start(meter.searches, steps, heard))
    except Spent:
        return


if __name__ == "__main__":
    measure(attacked)
