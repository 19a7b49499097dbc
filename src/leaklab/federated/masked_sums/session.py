"""The protocol from beginning to end: who sends what to whom, and in which order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from leaklab.federated.masked_sums.client import MaskedSumClient
from leaklab.federated.masked_sums.keys import CertificateAuthority, KeySource
from leaklab.federated.masked_sums.messages import MODULUS
from leaklab.federated.masked_sums.server import MaskedSumServer


@dataclass(frozen=True)
class Group:
    """A server and its clients after the exchange of keys.

    Attributes:
        server: the server.
        clients: all clients.
    """

    server: MaskedSumServer
    clients: tuple[MaskedSumClient, ...]


def form_group(values: Sequence[Mapping[str, int]], keys: KeySource, shared_masks: bool = False) -> Group:
    """Set up authority, clients and server, and let the clients agree on their secrets.

    Args:
        values: the private numbers of clients 0, 1, ..., by quantity.
        keys: where all private keys come from: ``SystemKeys()`` for real use, ``SeededKeys(seed)`` for experiments.
        shared_masks: UNSAFE, see ``MaskedSumClient``.
    """
    authority = CertificateAuthority(keys)
    clients = tuple(MaskedSumClient(k, own, authority, keys, shared_masks) for k, own in enumerate(values))
    server = MaskedSumServer(range(len(clients)))
    for client in clients:
        server.receive_key(client.announce())
    relayed = server.relay_keys()
    for client in clients:
        client.accept(relayed)
    return Group(server, clients)


def run_session(group: Group, session: str, quantities: Sequence[str], silent: Collection[int] = ()) -> dict[str, int]:
    """Sum each quantity over all clients; server and clients know the sums afterwards.

    Args:
        group: server and clients.
        session: label of this session; a new one each time, also after an abort.
        quantities: what is summed, one after the other.
        silent: clients that do not answer.

    Returns:
        the sum of each quantity.

    Raises:
        DropoutError: clients were silent. The session is over; run one with a new label.
    """
    sums = {}
    for quantity in quantities:
        request = group.server.ask(session, quantity)
        for client in group.clients:
            if client.number not in silent:
                group.server.receive(client.answer(request))
        total = group.server.total(request)
        for client in group.clients:
            client.learn(total)
        sums[quantity] = total.value
    return sums


# What a curious server can compute from the messages of a session.


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
