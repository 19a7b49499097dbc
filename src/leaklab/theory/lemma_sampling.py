"""LRP lemma 4, checked: how far the mean of K of N models, drawn without replacement, is from the mean of all.

    E_S|mean_S V - mean V|^2 = (1 - K / N) / (K (N - 1)) sum_i |V_i - mean V|^2

The lemma bounds the sum on the right; its appendix has the equality. It vanishes for K = N, as it must.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from leaklab.records.bounds import Count, Draws
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.base import Clients, Number, Track


@dataclass(frozen=True)
class LemmaSampling:
    """Draw participants for models with standard normal entries.

    Attributes:
        clients: N.
        participants: K, below N: else both sides are zero.
        dimension: of each model.
        draws: Monte Carlo draws of the participants.
    """

    clients: Count = 10
    participants: Count = 5
    dimension: Count = 20
    draws: Draws = 200_000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return ``lemma4_ratio``: the drawn mean over the formula; its std is that of a single draw.

        Raises:
            UserError: not 1 <= K < N, or fewer than two draws.
        """
        if not 1 <= self.participants < self.clients or self.dimension < 1 or self.draws < 2:
            raise UserError("lemma-sampling: needs 1 <= participants < clients, a dimension and at least two draws")
        models = stream(seed, "lemma-sampling", "models").normal(self.clients, self.dimension)
        ratios = squared_errors(seed, models, self.participants, self.draws) / formula(models, self.participants)
        return [Number("lemma4_ratio", float(ratios.mean()), std=float(ratios.std()), n=self.draws)]


def formula(models: Tensor, participants: int) -> float:
    """Return the lemma's value; models [N, P]."""
    clients = len(models)
    factor = (1 - participants / clients) / (participants * (clients - 1))
    return factor * float((models - models.mean(0)).square().sum())


def squared_errors(seed: int, models: Tensor, participants: int, draws: int) -> Tensor:
    """Return |mean_S V - mean V|^2 of every draw of S, [draws]."""
    order = stream(seed, "lemma-sampling", "participants").uniform(draws, len(models)).argsort(-1)
    means = models[order[:, :participants]].mean(1)
    return (means - models.mean(0)).square().sum(-1)


PLUGIN = LemmaSampling
