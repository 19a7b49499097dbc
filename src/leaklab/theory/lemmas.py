"""LRP lemma 2, checked: what perturbed rates add to the variance of the clients' mean step.

With rates eta_k from U(0, 2 eta), independent of the samples xi_k, and gradients g_k(xi_k) with mean G_k

    E|sum_k p_k (eta_k g_k - eta G_k)|^2 = eta^2 sum_k p_k^2 (E|g_k - G_k|^2 + E|g_k|^2 / 3).

The lemma bounds the two means by sigma_k^2 and G^2; its appendix has the equality.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.records.bounds import Count, Draws
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.convergence import VARIANCE
from leaklab.theory.tasks import made_up

RATE = 0.1
FEATURES, CLASSES, RIDGE = 10, 5, 0.1


@dataclass(frozen=True)
class LemmaVariance:
    """Draw samples and rates for gradients of a made-up ridge softmax regression at one random point.

    Attributes:
        clients: N, with equal weights.
        samples: of each client; xi is one of them.
        draws: Monte Carlo draws of all samples and rates.
    """

    clients: Count = 10
    samples: Count = 20
    draws: Draws = 200_000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return ``lemma2_ratio``: the drawn mean over the formula; its std is that of a single draw.

        Raises:
            UserError: fewer than two draws, or no client or sample.
        """
        if min(self.clients, self.samples) < 1 or self.draws < 2:
            raise UserError("lemma-variance: needs at least one client, one sample and two draws")
        gradients = sample_gradients(seed, self.clients, self.samples)
        ratios = squared_errors(seed, gradients, self.draws) / formula(gradients)
        return [Number("lemma2_ratio", float(ratios.mean()), std=float(ratios.std()), n=self.draws)]


def sample_gradients(seed: int, clients: int, samples: int) -> Tensor:
    """Return the gradient of every sample at a standard normal point, [N, n, P]."""
    problem = made_up(seed, clients, samples, FEATURES, CLASSES, RIDGE)
    weights = stream(seed, "lemma-variance", "point").normal(1, FEATURES, CLASSES)
    residuals = problem.residuals(problem.features @ weights)
    each = problem.features.unsqueeze(-1) * residuals.unsqueeze(-2) + RIDGE * weights
    return each.flatten(2)


def formula(gradients: Tensor) -> float:
    """Return the lemma's value for equal weights p_k = 1 / N; gradients [N, n, P]."""
    around = (gradients - gradients.mean(1, keepdim=True)).square().sum(-1).mean(1)
    whole = gradients.square().sum(-1).mean(1)
    return RATE**2 * float((around + VARIANCE * whole).sum()) / len(gradients) ** 2


def squared_errors(seed: int, gradients: Tensor, draws: int) -> Tensor:
    """Return |sum_k p_k (eta_k g_k - eta G_k)|^2 of every draw, [draws]."""
    clients, samples, _ = gradients.shape
    chosen = stream(seed, "lemma-variance", "samples").integers(0, samples, draws, clients)
    rates = 2 * RATE * stream(seed, "lemma-variance", "rates").uniform(draws, clients)
    error = torch.zeros(draws, gradients.shape[-1], dtype=torch.float64)
    for client, own in enumerate(gradients):  # one at a time: all draws of all clients would not fit
        error += (rates[:, client, None] * own[chosen[:, client]] - RATE * own.mean(0)) / clients
    return error.square().sum(-1)


# LRP lemma 4, checked: how far the mean of K of N models, drawn without replacement, is from the mean of all.


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
        ratios = squared_sampling_errors(seed, models, self.participants, self.draws) / sampling_formula(
            models, self.participants
        )
        return [Number("lemma4_ratio", float(ratios.mean()), std=float(ratios.std()), n=self.draws)]


def sampling_formula(models: Tensor, participants: int) -> float:
    """Return the lemma's value; models [N, P]."""
    clients = len(models)
    factor = (1 - participants / clients) / (participants * (clients - 1))
    return factor * float((models - models.mean(0)).square().sum())


def squared_sampling_errors(seed: int, models: Tensor, participants: int, draws: int) -> Tensor:
    """Return |mean_S V - mean V|^2 of every draw of S, [draws]."""
    order = stream(seed, "lemma-sampling", "participants").uniform(draws, len(models)).argsort(-1)
    means = models[order[:, :participants]].mean(1)
    return (means - models.mean(0)).square().sum(-1)


PLUGINS = {
    "lemma-sampling": LemmaSampling,
    "lemma-variance": LemmaVariance,
}
