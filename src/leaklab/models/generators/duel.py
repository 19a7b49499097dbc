"""Generator against discriminator: one step of both, and all that the next step depends on.

Sources: hinge loss and spectral normalisation as in "Spectral Normalization for Generative Adversarial Networks"; the
running average of the weights as in "Progressive Growing of GANs", section 4.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.generators.base import Generator

STEP = "step"
AVERAGE = "average"


class Duel:
    """Both networks, their optimizers, and the running average of the generator's weights.

    Args:
        generator: with its initial weights.
        judge: the discriminator, with its initial weights.
        rates: Adam's rates for the generator and for the discriminator.
        momentum: Adam's first decay, for both.
        average: weight of the past in the running average.
    """

    def __init__(
        self, generator: Generator, judge: nn.Module, rates: tuple[float, float], momentum: float, average: float
    ) -> None:
        self.generator, self.judge, self.average = generator.train(), judge.train(), average
        self.averaged = [p.detach().clone() for p in generator.parameters()]
        self._networks: dict[str, nn.Module] = {"generator": generator, "judge": judge}
        self._adam = {
            name: torch.optim.Adam(network.parameters(), lr=rate, betas=(momentum, 0.999))
            for (name, network), rate in zip(self._networks.items(), rates, strict=True)
        }

    def step(self, number: int, real: tuple[Tensor, Tensor], drawn: tuple[Tensor, Tensor]) -> tuple[float, float]:
        """Update the discriminator, then the generator and its average; return both losses before the update.

        Args:
            number: of the step, from 0.
            real: images and their class probabilities.
            drawn: latents and class probabilities of as many images to generate.
        """
        (images, classes), generated = real, self.generator.generate(*drawn)
        scores = self.judge(torch.cat([images, generated.detach()]), torch.cat([classes, drawn[1]]))
        for_real, for_generated = scores.split([len(images), len(generated)])
        judged = F.relu(1 - for_real).mean() + F.relu(1 + for_generated).mean()
        self._descend("judge", judged)
        self.judge.requires_grad_(requires_grad=False)
        deceived = -self.judge(generated, drawn[1]).mean()
        self._descend("generator", deceived)
        self.judge.requires_grad_()
        # a short past first: the initial weights must not stay in the average
        past = min(self.average, (1 + number) / (10 + number))
        torch._foreach_lerp_(self.averaged, [p.detach() for p in self.generator.parameters()], 1 - past)
        return float(judged.detach()), float(deceived.detach())

    def adopt_average(self) -> None:
        """Give the generator the averaged weights."""
        with torch.no_grad():
            for parameter, value in zip(self.generator.parameters(), self.averaged, strict=True):
                parameter.copy_(value)

    def state(self, done: int) -> dict[str, Tensor]:
        """Return all that the next step depends on, by name, and the number of steps done."""
        tensors = {STEP: torch.tensor(done)} | {f"{AVERAGE}/{i}": value for i, value in enumerate(self.averaged)}
        for name, network in self._networks.items():
            tensors |= {f"{name}/{key}": value for key, value in network.state_dict().items()}
            for i, parameter in enumerate(network.parameters()):
                moments = self._adam[name].state[parameter].items()
                tensors |= {f"{name} adam/{i}/{key}": value for key, value in moments}
        return tensors

    def resume(self, tensors: Mapping[str, Tensor]) -> int:
        """Take over what ``state`` returned; return the number of steps done (0 for nothing)."""
        if not tensors:
            return 0
        for own, value in zip(self.averaged, _below(tensors, AVERAGE).values(), strict=True):
            own.copy_(value)
        for name, network in self._networks.items():
            network.load_state_dict(_below(tensors, name), strict=True)
            for i, parameter in enumerate(network.parameters()):
                moments = _below(tensors, f"{name} adam/{i}").items()
                # torch keeps Adam's count of steps on the CPU, wherever the parameter is
                self._adam[name].state[parameter] = {
                    key: value if key == STEP else value.to(parameter) for key, value in moments
                }
        return int(tensors[STEP])

    def _descend(self, name: str, loss: Tensor) -> None:
        self._adam[name].zero_grad()
        torch.autograd.backward(loss)
        self._adam[name].step()


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix/``; numbered ones by their numbers."""
    found = {name.removeprefix(f"{prefix}/"): t for name, t in tensors.items() if name.startswith(f"{prefix}/")}
    if all(name.isdigit() for name in found):
        return {name: found[name] for name in sorted(found, key=int)}
    return found
