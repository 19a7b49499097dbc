"""Hidden batch normalisation: its parameters and running statistics stay with the client (LRP figure 8)."""

from dataclasses import dataclass

from torch import nn

from leaklab.defenses.base import Defense
from leaklab.models.batch_norm import batch_norms
from leaklab.records.errors import UserError


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


PLUGIN = HiddenNormalization
