"""The last affine layer of a network, by which defenses of the classifier go."""

from torch import nn

from leaklab.records.errors import UserError


def last_affine(network: nn.Sequential, needed_by: str) -> str:
    """Return the name of the last affine layer that stands directly in the network.

    Raises:
        UserError: there is none.
    """
    names = [name for name, layer in network.named_children() if isinstance(layer, nn.Linear)]
    if not names:
        raise UserError(f"{needed_by}: the network has no affine layer of its own: choose another model")
    return names[-1]
