"""The rates that LRP and ada-LRP really draw: their range, law and mean, and the class factors.

Source: LRP paper, eqs. (10), (12), (13) and algorithm 1; claims LRP-33 and LRP-35.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import kstest
from torch import Tensor

from leaklab.defenses.base import Alone, ClientContext, Defense
from leaklab.defenses.lrp import SMALLEST, LearningRatePerturbation
from leaklab.defenses.outpost import Outpost, Parts
from leaklab.federated.algorithms.fedavg import FedAvg
from leaklab.models.cnns import DLGLeNet
from leaklab.records.bounds import Count, Flag, Rate, Real
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Clients, Number, Track

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RateDraws:
    """Draws the rates of all clients of a deal, in every round, through the defense's own code.

    All clients are asked in every round, as if each took part; a client's draws do not depend on who else does.

    Attributes:
        rate: nominal learning rate of the server, constant.
        class_slope: zeta of eq. (13) for ada-LRP.
        rounds: number of rounds.
        local_steps: steps per round, each with a draw of its own.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=5.0)

    rate: Rate = 0.01
    class_slope: Real = 1 / 6
    rounds: Count = 10
    local_steps: Count = 50

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return the numbers; those on the law of the rates (see ``law``) are the worse of LRP and ada-LRP.

        ``mean_class_factor``, ``mean_factor_times_pN``: means over clients of ada-LRP's class factor and of it times
        p_k N. ``clipped_clients``: clients whose factor was cut. ``largest_rate_over_lrp``: the largest rate that
        ada-LRP drew over that of LRP. ``most_classes_of_fewest``, ``one_class_of_fewest``: of the clients with the
        fewest samples, which hold one shard where data are dealt so, the most classes that one has, and the share of
        those with one class.

        Args:
            seed: seed of the draws.
            clients: the deal.
            track: wraps the loop over rounds.

        Raises:
            UserError: no deal is given, or the settings leave nothing to draw.
        """
        if clients is None:
            raise UserError("check rate-draws: name a dataset and a partition, whose clients draw the rates")
        if min(self.rate, self.rounds, self.local_steps) <= 0:
            raise UserError("check rate-draws: set rate, rounds and local_steps above 0")
        plain, adaptive = LearningRatePerturbation(), LearningRatePerturbation(class_slope=self.class_slope)
        weights = np.array(FedAvg(scheme=1).rate_factors(clients.sizes))
        means = [self.rate * weights, self.rate * weights * expected_factors(clients.class_counts, self.class_slope)]
        drawn = self._drawn([plain, adaptive], clients, seed, track)
        yield from law(drawn, means)
        yield Number("largest_rate_over_lrp", float(drawn[1].max() / drawn[0].max()))
        factors = used_factors(adaptive, plain, clients, self.rate, seed)
        yield Number("mean_class_factor", float(factors.mean()))
        yield Number("mean_factor_times_pN", float((factors * weights).mean()))
        yield Number("clipped_clients", sum(adaptive.clipped(asked) for asked in contexts(clients, self.rate, seed)))
        fewest = min(clients.sizes)
        classes = [count for size, count in zip(clients.sizes, clients.class_counts, strict=True) if size == fewest]
        yield Number("most_classes_of_fewest", max(classes))
        yield Number("one_class_of_fewest", classes.count(1) / len(classes))

    def _drawn(self, defenses: Sequence[Defense], clients: Clients, seed: int, track: Track) -> list[Array]:
        """Return each defense's rates, clients x rounds x steps; no two of them share a draw."""
        drawn = [np.empty((len(clients.sizes), self.rounds, self.local_steps)) for _ in defenses]
        for round_index in track(range(self.rounds), self.rounds, "round"):
            for draw, defense in enumerate(defenses):
                asked = contexts(clients, self.rate, seed, round_index, draw)
                drawn[draw][:, round_index] = [rates(defense, context, self.local_steps) for context in asked]
        return drawn


def contexts(clients: Clients, rate: float, seed: int, round_index: int = 0, draw: int = 0) -> list[ClientContext]:
    """Return what each client knows in a round of scheme 1, on which both algorithms are built.

    Args:
        clients: the deal.
        rate: nominal learning rate.
        seed: seed of the draws.
        round_index: the round.
        draw: repetition; two repetitions are independent.
    """
    mean = sum(clients.class_counts) / len(clients.class_counts)
    factors = FedAvg(scheme=1).rate_factors(clients.sizes)
    return [
        ClientContext(
            scaled_rate=factor * rate,
            seed=seed,
            client=number,
            round=round_index,
            draw=draw,
            num_classes=count,
            mean_num_classes=mean,
        )
        for number, (factor, count) in enumerate(zip(factors, clients.class_counts, strict=True))
    ]


def rates(defense: Defense, context: ClientContext, steps: int) -> list[float]:
    """Return the rates of a client's local steps in one round."""
    return [float(defense.local_rate(context.at(Alone(step)))) for step in range(steps)]


def expected_factors(class_counts: Sequence[int], slope: float) -> Array:
    """Return K_k = zeta (Y_k - mean Y) + 1 of eq. (13), cut from below; written down apart from the defense."""
    counts = np.array(class_counts, dtype=np.float64)
    factors: Array = np.maximum(slope * (counts - counts.mean()) + 1, SMALLEST)
    return factors


def used_factors(adaptive: Defense, plain: Defense, clients: Clients, rate: float, seed: int) -> Array:
    """Return the class factor that the defense uses for each client: ada-LRP's rate over LRP's of the same draw."""
    pairs = zip(contexts(clients, rate, seed), contexts(clients, rate, seed), strict=True)
    return np.array([rates(adaptive, one, 1)[0] / rates(plain, other, 1)[0] for one, other in pairs])


def law(drawn: Sequence[Array], means: Sequence[Array]) -> Iterator[Number]:
    """Return what the drawn rates say about their law, the worst over the algorithms.

    ``rate_min``: smallest rate. ``rate_max_over_2mean``: largest ratio of a rate to the end of its range, twice the
    expected mean. ``mean_over_expected``: mean ratio of a rate to its expected mean, the one farthest from 1.
    ``ks_pvalue``: of the hypothesis that rates, each over the end of its range, are uniform on [0, 1): the smallest
    p-value of a Kolmogorov-Smirnov test per algorithm times their number (Bonferroni). If the hypothesis holds, it
    falls below 0.01 for at most one seed in a hundred.

    Args:
        drawn: for each algorithm the rates, clients x rounds x steps.
        means: for each algorithm the expected mean rate of each client.
    """
    shares = [(rate / (2 * mean[:, None, None])).ravel() for rate, mean in zip(drawn, means, strict=True)]
    ratios = [2 * float(share.mean()) for share in shares]
    pvalues = [float(kstest(share, "uniform").pvalue) for share in shares]
    yield Number("rate_min", min(float(rate.min()) for rate in drawn))
    yield Number("rate_max_over_2mean", max(float(share.max()) for share in shares))
    yield Number("mean_over_expected", max(ratios, key=lambda ratio: abs(ratio - 1)))
    yield Number("ks_pvalue", min(1.0, len(pvalues) * min(pvalues)))


# What OUTPOST really perturbs: how many steps of a round, how strongly, and which share of each tensor.

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

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=13.0)

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


PLUGINS = {
    "outpost-draws": OutpostDraws,
    "rate-draws": RateDraws,
}
