"""Masks that cancel: what a pair of clients derives from its secret, and with which sign each of the two uses it.

Source: LRP paper, eq. (14), which states no modulus and no key derivation.
"""

from collections.abc import Mapping

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from leaklab.federated.masked_sums.messages import encode

MASK_BYTES = 8
MODULUS = 1 << (8 * MASK_BYTES)


def pair_mask(secret: bytes, session: str, label: str, first: int, second: int) -> int:
    """Return the mask of a pair of clients, uniform on [0, 2^64) to all but the two.

    Args:
        secret: what the two agreed on.
        session: label of the session.
        label: what the mask is for; another label gives an independent mask.
        first: number of one client.
        second: number of the other; the order does not matter.
    """
    pair = min(first, second), max(first, second)
    info = encode("leaklab masked sum", session, label, *pair)
    return int.from_bytes(HKDF(SHA256(), MASK_BYTES, salt=None, info=info).derive(secret), "big")


def total_mask(secrets: Mapping[int, bytes], session: str, label: str, client: int) -> int:
    """Return what ``client`` adds to its number: masks with smaller numbers count +, with larger ones -.

    Every mask comes once with each sign, so the total masks of all clients sum to 0 modulo 2^64.

    Args:
        secrets: the client's secret with every other client.
        session: label of the session.
        label: what the masks are for.
        client: the client's own number.
    """
    masks = ((other, pair_mask(secret, session, label, client, other)) for other, secret in secrets.items())
    return sum(mask if other < client else -mask for other, mask in masks) % MODULUS


def largest_value(clients: int) -> int:
    """Return the largest number that each of ``clients`` may hold so that no sum reaches the modulus."""
    return (MODULUS - 1) // clients
