"""The rates that LRP and ada-LRP really draw: their range, law and mean, and the class factors.

Source: LRP paper, eqs. (10), (12), (13) and algorithm 1; claims LRP-33 and LRP-35.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from leaklab.defenses.base import Alone, ClientContext, Defense
from leaklab.defenses.class_factor import SMALLEST
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.federated.algorithms.fedavg import FedAvg
from leaklab.records.bounds import Count, Rate, Real
from leaklab.records.errors import UserError
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

    rate: Rate = 0.01
    class_slope: Real = 1 / 6
    rounds: Count = 10
    local_steps: Count = 50

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return the numbers; those on the law of the rates (see ``law``) are the worse of LRP and ada-LRP.

        ``mean_class_factor``, ``mean_factor_times_pN``: means over clients of ada-LRP's class factor and of it times
        p_k N. ``clipped_clients``: clients whose factor was cut.

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
        yield from law(self._drawn([plain, adaptive], clients, seed, track), means)
        factors = used_factors(adaptive, plain, clients, self.rate, seed)
        yield Number("mean_class_factor", float(factors.mean()))
        yield Number("mean_factor_times_pN", float((factors * weights).mean()))
        yield Number("clipped_clients", sum(adaptive.clipped(asked) for asked in contexts(clients, self.rate, seed)))

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


PLUGIN = RateDraws
