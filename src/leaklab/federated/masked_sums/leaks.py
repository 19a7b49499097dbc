"""What a curious server can compute from the messages of a session."""

from leaklab.federated.masked_sums.masks import MODULUS
from leaklab.federated.masked_sums.server import MaskedSumServer


def differences(server: MaskedSumServer, session: str, first: str, second: str) -> dict[int, int]:
    """Subtract each client's two messages, in the hope that its masks are the same and cancel.

    Args:
        server: the server; nothing but its messages is used.
        session: label of the session.
        first: a quantity.
        second: the quantity that is subtracted.

    Returns:
        by client, the difference modulo 2^64 as a number in [-2^63, 2^63); the difference of the client's numbers if
        both were hidden behind the same masks, and else noise.
    """
    left, right = server.seen(session, first), server.seen(session, second)
    return {client: _centered(left[client] - right[client]) for client in left.keys() & right.keys()}


def _centered(difference: int) -> int:
    return (difference + MODULUS // 2) % MODULUS - MODULUS // 2
