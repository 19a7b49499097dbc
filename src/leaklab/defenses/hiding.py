"""Perturbed number of local steps (LRP figure 8); the range, not printed, is that whose mean is E."""

from dataclasses import dataclass

from torch import nn

from leaklab.defenses.base import ClientContext, Defense
from leaklab.models.normalisation import batch_norms
from leaklab.records.errors import UserError


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


PLUGINS = {
    "bsp": BatchSizePerturbation,
    "hide-bn": HiddenNormalization,
    "hide-classifier": HiddenClassifier,
    "lsp": LocalStepPerturbation,
}
