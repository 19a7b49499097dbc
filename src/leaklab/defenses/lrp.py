"""Learning rate perturbation (LRP) and its adaptive form, ada-LRP.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", eqs. (10), (12), (13).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.per_sample import sample_gradients
from leaklab.models.normalisation import batch_norms
from leaklab.records.bounds import Count, Flag, Real
from leaklab.records.errors import UserError

# The class factor of ada-LRP: clients with more classes learn faster.

# eq. (13) turns non-positive for a client with few classes and a steep slope; a client must still learn something
SMALLEST = 1e-3


def uncut(context: ClientContext, slope: float | None, offset: float) -> float:
    """Return slope * (Y_k - mean Y) + offset, or 1 without a slope.

    Args:
        context: the client, with Y_k = ``num_classes``.
        slope: zeta.
        offset: beta; 1 keeps the average factor over clients at 1.
    """
    return 1.0 if slope is None else slope * (context.num_classes - context.mean_num_classes) + offset


def class_factor(context: ClientContext, slope: float | None, offset: float) -> float:
    """Return the factor, cut at the smallest one that is allowed."""
    return max(uncut(context, slope, offset), SMALLEST)


@dataclass(frozen=True)
class LearningRatePerturbation(Defense):
    """Draw the local learning rate from U(0, 2 * mean) in every local step, so that the gradient's scale is hidden.

    One scalar per step, shared by all layers. With a single local step the update is the gradient times one unknown
    factor: its direction, its sparsity and every ratio of entries stay visible. Over several steps the weights of
    the steps' gradients are hidden too. Nothing else is.

    Attributes:
        class_slope: zeta of eq. (13). None keeps the mean at the client's scaled rate (plain LRP).
        class_offset: beta of eq. (13); 1 keeps the average class factor over clients at 1.
    """

    class_slope: Real | None = None
    class_offset: Real = 1.0

    def local_rate(self, context: ClientContext) -> float:
        """Return this step's learning rate, in [0, 2 * class factor * scaled rate)."""
        mean = context.scaled_rate * class_factor(context, self.class_slope, self.class_offset)
        return context.stream("rate").number() * (2 * mean)

    def clipped(self, context: ClientContext) -> bool:
        """Whether eq. (13) fell below the smallest class factor for this client."""
        return uncut(context, self.class_slope, self.class_offset) < SMALLEST


# Other laws of the rate, which have no largest value (LRP section 7).


@dataclass(frozen=True)
class UnboundedRate(Defense):
    """Draw the rate of every local step from a law with the mean and the variance of LRP's, and without bounds.

    The variance of U(0, 2 m) is m^2 / 3. A rate below 0 is a step uphill.

    Attributes:
        law: ``gaussian`` or ``laplace``.
    """

    law: Literal["gaussian", "laplace"] = "gaussian"

    def local_rate(self, context: ClientContext) -> float:
        """Return this step's learning rate, of either sign."""
        draws = context.stream("rate")
        if self.law == "gaussian":
            return context.scaled_rate * (1 + float(draws.normal()) / math.sqrt(3))
        centred = draws.number() - 0.5
        # a Laplace law of scale b has the variance 2 b^2
        return context.scaled_rate * (1 - math.copysign(math.log1p(-2 * abs(centred)), centred) / math.sqrt(6))


# The deterministic half of ada-LRP: rates scaled by the client's number of classes, nothing drawn.


@dataclass(frozen=True)
class ScaledRate(Defense):
    """Use the mean of ada-LRP's law as the rate of every step.

    Attributes:
        class_slope: zeta of eq. (13).
        class_offset: beta of eq. (13).
    """

    class_slope: Real = 0.0
    class_offset: Real = 1.0

    def local_rate(self, context: ClientContext) -> float:
        """Return class factor * scaled rate."""
        return context.scaled_rate * class_factor(context, self.class_slope, self.class_offset)

    def clipped(self, context: ClientContext) -> bool:
        """Whether eq. (13) fell below the smallest class factor for this client."""
        return uncut(context, self.class_slope, self.class_offset) < SMALLEST


# Perturbed number of local steps (LRP figure 8); the range, not printed, is that whose mean is E.


@dataclass(frozen=True)
class LocalStepPerturbation(Defense):
    """Do E' ~ U{1, ..., 2E - 1} local steps in place of E; the server goes on to assume E."""

    def local_steps(self, nominal: int, context: ClientContext) -> int:
        """Return E'."""
        return int(context.stream("local steps").integers(1, 2 * nominal, 1))


# Perturbed batch size (LRP figure 8); its range is not printed: uniform, with the nominal size as mean.


@dataclass(frozen=True)
class BatchSizePerturbation(Defense):
    """Take B' ~ U{1, ..., 2B - 1} samples in every local step in place of B, but no more than the client has."""

    def batch_size(self, nominal: int, context: ClientContext) -> int:
        """Return B'; who trains cuts it to the number of the client's samples."""
        return int(context.stream("batch size").integers(1, 2 * nominal, 1))


# Hidden batch normalisation: its parameters and running statistics stay with the client (LRP figure 8).


@dataclass(frozen=True)
class HiddenNormalization(Defense):
    """Send all updates but those of batch normalisations; an attacker leaves them out of the matching loss."""

    def hidden(self, network: nn.Sequential) -> frozenset[str]:
        """Return the names of all parameters and running statistics of batch normalisations.

        Raises:
            UserError: the network has none.
        """
        state = network.state_dict()
        names = {f"{layer}.{own}" for layer in batch_norms(network) for own in ("weight", "bias")}
        names |= {f"{layer}.{own}" for layer in batch_norms(network) for own in ("running_mean", "running_var")}
        found = frozenset(names & set(state))
        if not found:
            raise UserError("defense hide-bn: the model has no batch normalization to hide: choose another model")
        return found


# The last affine layer of a network, by which defenses of the classifier go.


def last_affine(network: nn.Sequential, needed_by: str) -> str:
    """Return the name of the last affine layer that stands directly in the network.

    Raises:
        UserError: there is none.
    """
    names = [name for name, layer in network.named_children() if isinstance(layer, nn.Linear)]
    if not names:
        raise UserError(f"{needed_by}: the network has no affine layer of its own: choose another model")
    return names[-1]


# Hidden classifier: the last affine layer stays with the client (LRP figure 8).


@dataclass(frozen=True)
class HiddenClassifier(Defense):
    """Send all updates but those of the last affine layer, so that no label can be read off it."""

    def hidden(self, network: nn.Sequential) -> frozenset[str]:
        """Return the names of the last affine layer's parameters.

        Raises:
            UserError: the network has no affine layer of its own.
        """
        layer = last_affine(network, "defense hide-classifier")
        return frozenset(name for name, _ in network.named_parameters() if name.rpartition(".")[0] == layer)


# Masked sums: the server sees what several clients send only as their sum, each with a hidden rate if it wants.
#
# Source: "Practical Secure Aggregation for Privacy-Preserving Machine Learning"; LRP, section 4.3, whose clients add up
# their models in this way.


@dataclass(frozen=True)
class MaskedSum(Defense):
    """Spread the batch over K clients in equal parts, and send the mean of their one step's gradients.

    A batch stands for the images of all K clients, and an update for their sum over K: what masks leave to the server.
    With perturbed rates the gradient of client k has the factor r_k / rate, r_k drawn from U(0, 2 rate) as under LRP.
    Sums of several local steps are no function of the mean weights, so there is one.

    Attributes:
        clients: K; it divides the batch.
        perturbed: whether each client draws its rate.
    """

    clients: Count = 2
    perturbed: Flag = True

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the mean of the clients' gradients, each times the factor on its rate.

        Raises:
            UserError: a second local step, no batch, or one that does not go to the clients in equal parts.
        """
        samples = len(context.batch["labels"]) if context.batch else 0
        if context.step:
            raise UserError("defense masked-sum adds up one local step of each client: set local_steps: 1")
        if not samples or samples % self.clients:
            raise UserError(
                f"defense masked-sum: {samples} samples do not go to {self.clients} clients in equal parts: set "
                "batch_size to a multiple"
            )
        if not self.perturbed:
            return gradients
        factors = torch.tensor([context.stream(f"rate of client {k}").number() * 2 for k in range(self.clients)])
        weights = factors.double().repeat_interleave(samples // self.clients) / samples
        each = sample_gradients(context.network(), context.batch, list(gradients))
        return {
            name: (weights.to(each[name]) @ each[name]).view_as(value).to(value) for name, value in gradients.items()
        }

    def neutral(self) -> bool:
        """Whether no rate is perturbed: then the sum alone hides, and that is in the batch that stands for it."""
        return not self.perturbed


PLUGINS = {
    "bsp": BatchSizePerturbation,
    "hide-bn": HiddenNormalization,
    "hide-classifier": HiddenClassifier,
    "lrp": LearningRatePerturbation,
    "lsp": LocalStepPerturbation,
    "masked-sum": MaskedSum,
    "scaled-rate": ScaledRate,
    "unbounded-rate": UnboundedRate,
}
