"""Peer breaching: its attacks 'deepleakage' and 'invertinggradients', configured and run as its users do."""

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import breaching
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from attack_speed.material import Material
from attack_speed.objectives import TV_WEIGHT
from attack_speed.workers.measuring import Meter, OneByOne, Reached, measure
from attack_speed.workloads import CLASSES, INNER, Workload

SETUP = {"dtype": torch.float, "device": torch.device("cpu")}


class Breaching(OneByOne):
    """An ``Attacker``."""

    def __init__(self, workload: Workload, material: Material) -> None:
        super().__init__(workload, material)
        self._attackers: dict[int, Any] = {}
        channels = workload.image_shape[0]
        # the [0, 1] scale: no normalisation
        facts = {"modality": "vision", "task": "classification", "classes": CLASSES, "shape": [*workload.image_shape]}
        metadata = OmegaConf.create(facts | {"mean": [0.0] * channels, "std": [1.0] * channels})
        parameters, buffers = list(material.network.parameters()), list(material.network.buffers())
        self._payload = [{"parameters": parameters, "buffers": buffers, "metadata": metadata}]

    def objective(self) -> list[float]:
        """See ``Attacker.objective``: the first value that an attack from the common point reports."""
        once = INNER if self.workload.attack == "dlg" else 1
        nothing = Meter(self.material.images.flatten(1), None)
        return [
            self._values(trial, self.material.points[trial], once, nothing)[0] for trial in range(self.workload.trials)
        ]

    def start(self, trial: int, number: int, iterations: int, meter: Meter) -> float:
        """See ``OneByOne.start``."""
        return min(self._values(trial, self.material.starts[number, trial], iterations, meter), default=float("inf"))

    def _values(self, trial: int, first: Tensor, iterations: int, meter: Meter) -> Sequence[float]:
        """Attack and return what breaching calls the values of its iterations: of its optimizer's steps."""
        attacker, dlg = self._attacker(iterations), self.workload.attack == "dlg"
        images, labels = self.material.split(first, trial)
        _start_at(attacker, images, labels)
        _tell_steps(attacker, meter)
        known = {"num_data_points": 1, "labels": None if dlg else labels, "local_hyperparams": None}
        shared = [{"gradients": self.material.observed(trial), "buffers": None, "metadata": known}]

        def note(objective: nn.Module, arguments: tuple[Any, ...]) -> None:
            candidate = arguments[2]
            if meter.evaluating(candidate.flatten(1), [trial])[0]:
                raise Reached

        handle = attacker.objective.register_forward_pre_hook(note)
        try:
            _, stats = attacker.reconstruct(self._payload, shared, server_secrets={})
        finally:
            handle.remove()
        values: Sequence[float] = stats["Trial_0_Val"]
        return values

    def _attacker(self, iterations: int) -> Any:
        if iterations not in self._attackers:
            if self.workload.attack == "dlg":
                # its squared distance has a factor of one half
                own = ["deepleakage", iterations // INNER, "++objective.scale=2.0"]
            else:
                own = ["invertinggradients", iterations, f"regularization.total_variation.scale={TV_WEIGHT}"]
            name, steps, setting = own
            kind = str(self.material.points.dtype).removeprefix("torch.")
            with redirect_stdout(StringIO()):
                config = breaching.get_attack_config(
                    name, [f"optim.max_iterations={steps}", f"impl.dtype={kind}", setting]
                )
            loss = nn.CrossEntropyLoss()
            self._attackers[iterations] = breaching.attacks.prepare_attack(self.material.network, loss, config, SETUP)
        return self._attackers[iterations]


def _start_at(attacker: Any, images: Tensor, logits: Tensor) -> None:
    """Make it begin at the common start, which it would draw from torch's global generator."""

    def initial(shape: Sequence[int]) -> Tensor:
        start = (images if len(shape) == images.dim() else logits).clone().requires_grad_()
        start.grad = torch.zeros_like(start)
        return start

    attacker._initialize_data = initial


def _tell_steps(attacker: Any, meter: Meter) -> None:
    """Tell the meter of every step of its optimizer."""
    make = type(attacker)._init_optimizer

    def made(*arguments: Any, **settings: Any) -> Any:
        optimizer, schedule = make(attacker, *arguments, **settings)
        optimizer.register_step_post_hook(lambda *event: meter.stepped())
        return optimizer, schedule

    attacker._init_optimizer = made


def main() -> None:
    """Measure the workload in the first argument with the material in the second."""
    measure(Breaching)


if __name__ == "__main__":
    main()
