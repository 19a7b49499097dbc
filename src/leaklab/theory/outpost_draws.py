"""What OUTPOST really perturbs: how many steps of a round, how strongly, and which share of each tensor.

Source: OUTPOST, algorithm 1; claims OUT-27 and OUT-28. Everything is read off what the defense's own code returns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.outpost import Outpost, Parts
from leaklab.models.dlg_lenet import DLGLeNet
from leaklab.records.bounds import Count, Flag
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.base import Clients, Number, Track

Tensors = Mapping[str, Tensor]
EPOCHS = 5
# a client's round of five epochs: 500 samples of CIFAR-10 and 1,128 of EMNIST in batches of 32
ROUNDS = (80, 180)
INITIALISATIONS = ("wide", "pytorch")
SHAPE, CLASSES, BATCH = (3, 32, 32), 10, 8


@dataclass(frozen=True)
class OutpostDraws:
    """Play rounds of one client, and perturb the first gradient of an untrained LeNet on images of noise.

    Attributes:
        rounds: how many rounds of each length are played.
        draws: independent draws of the noise on the gradient, at least two.
        as_coded: the public code's form, see ``defenses/outpost.py``.
    """

    rounds: Count = 200
    draws: Count = 50
    as_coded: Flag = False

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return the numbers.

        By ``steps`` of a round: ``perturbed_share``, and ``expected_share`` of the printed law. Of all rounds:
        ``first_step_perturbed``. As a curve over the ``step`` of the longest rounds: ``perturbed_at_step``, the share
        of rounds in which it was perturbed, and ``law``.

        By ``init`` and ``tensor``: ``risk``, the noise's standard deviation over the noise scale; ``variance`` of the
        weights; ``pruned_share`` and ``noised_share`` of the entries; ``covered_share``, of the entries that pruning
        keeps, those that get noise.

        Raises:
            UserError: fewer than two draws.
        """
        if self.draws < 2:
            raise UserError("outpost-draws: needs at least two draws")
        first = []
        for steps in ROUNDS:
            played = self._played(seed, steps, track)
            shares = played.mean(1)
            first.append(played[:, 0])
            std = float(shares.std(ddof=1)) if self.rounds > 1 else None
            yield Number("perturbed_share", float(shares.mean()), {"steps": steps}, std=std, n=self.rounds)
            yield Number("expected_share", expected_share(steps, Outpost.decay), {"steps": steps})
        yield Number("first_step_perturbed", float(np.concatenate(first).mean()))
        for place, share in enumerate(played.mean(0).tolist()):
            yield Number("step", place + 1.0, index=place)
            yield Number("perturbed_at_step", share, index=place, n=self.rounds)
            yield Number("law", chance(place + 1, Outpost.decay), index=place)
        for initialisation in INITIALISATIONS:
            yield from self._masks(seed, initialisation)

    def _defense(self, steps: int = EPOCHS, parts: Parts = "both", decay: float = Outpost.decay) -> Outpost:
        return Outpost(as_coded=self.as_coded, epoch_steps=steps // EPOCHS, parts=parts, decay=decay)

    def _played(self, seed: int, steps: int, track: Track) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return whether each step changed a gradient, [rounds, steps]."""
        gradient, weights = {"w": torch.arange(1.0, 11.0)}, {"w": torch.linspace(-1, 1, 10)}
        defense = self._defense(steps)
        found = np.zeros((self.rounds, steps), dtype=np.bool_)
        for number in track(range(self.rounds), self.rounds, f"rounds of {steps} steps"):
            client = ClientContext(1.0, seed=seed, client=0, round=number)
            for step in range(steps):
                changed = defense.gradient(gradient, client.at(Alone(step, weights)))["w"]
                found[number, step] = not torch.equal(changed, gradient["w"])
        return found

    def _masks(self, seed: int, initialisation: str) -> Iterator[Number]:
        weights, gradient = first_gradient(seed, initialisation)

        def perturbed(parts: Parts, draw: int = 0) -> Tensors:
            client = ClientContext(1.0, seed=seed, client=0, draw=draw).at(Alone(0, weights))
            # every step: the public code may leave the first one as it is
            return self._defense(parts=parts, decay=0.0).gradient(gradient, client)

        kept, noisy = perturbed("prune"), [perturbed("noise", draw) for draw in range(self.draws)]
        for name, value in gradient.items():
            row = {"init": initialisation, "tensor": name}
            added = torch.stack([one[name] - value for one in noisy])
            survivors, places = kept[name] != 0, added[0] != 0
            drawn = added[:, places].flatten()
            strength = float(drawn.square().mean().sqrt()) / Outpost.noise_scale if len(drawn) else float("nan")
            yield Number("risk", strength, row)
            yield Number("variance", float(weights[name].var(correction=0)), row)
            yield Number("pruned_share", float((~survivors).double().mean()), row)
            yield Number("noised_share", float(places.double().mean()), row)
            yield Number("covered_share", float(places[survivors].double().mean()), row)


def expected_share(steps: int, decay: float) -> float:
    """Return the expected share of perturbed steps of a round, as printed."""
    return sum(chance(count, decay) for count in range(1, steps + 1)) / steps


def chance(count: int, decay: float) -> float:
    """Return with which probability step i = 1, 2, ... of a round is perturbed, as printed."""
    return 1.0 if count == 1 else 1 / (1 + decay * count)


def first_gradient(seed: int, initialisation: str) -> tuple[Tensors, Tensors]:
    """Return the LeNet's first weights and its gradient on a batch of made-up images, float64."""
    network = DLGLeNet(initialisation=initialisation).initialised(SHAPE, CLASSES, seed, torch.float64)
    draws = stream(seed, "outpost-draws", "images")
    loss = F.cross_entropy(network(draws.normal(BATCH, *SHAPE)), draws.integers(0, CLASSES, BATCH))
    names, parameters = zip(*network.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    weights = {name: value.detach() for name, value in zip(names, parameters, strict=True)}
    return weights, dict(zip(names, gradients, strict=True))


PLUGIN = OutpostDraws
