"""The protocol from beginning to end: who sends what to whom, and in which order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from leaklab.federated.masked_sums.client import MaskedSumClient
from leaklab.federated.masked_sums.messages import (
    MODULUS,
    CertificateAuthority,
    KeyAnnouncement,
    KeySource,
    MaskedValue,
    Request,
    Total,
    whole,
)
from leaklab.records.errors import UserError

# The server: relays keys, asks, adds up. It holds what it was sent and nothing else.


class DropoutError(UserError):
    """Some clients did not answer, so the masks of the others do not cancel and there is no sum.

    Attributes:
        missing: their numbers.
    """

    def __init__(self, what: str, missing: Sequence[int]) -> None:
        self.missing = tuple(missing)
        names = ", ".join(map(str, self.missing))
        super().__init__(
            f"masked sums: no {what} from client {names}: wait for them or leave them out, "
            f"and start again with a new session label"
        )


class MaskedSumServer:
    """The server of one group of clients, honest but curious."""

    def __init__(self, clients: Sequence[int]) -> None:
        """Start with nothing but the group.

        Args:
            clients: numbers of the clients that take part; all must answer.

        Raises:
            UserError: there are none: their sum would be 0, which nobody has said.
        """
        if not clients:
            raise UserError("masked sums: there are no clients: name at least two")
        self._clients = tuple(sorted(clients))
        self._keys: dict[int, KeyAnnouncement] = {}
        self._values: dict[Request, dict[int, int]] = {}
        self._closed: set[str] = set()

    def receive_key(self, announcement: KeyAnnouncement) -> None:
        """Take a client's key. It is not checked here: clients do not rely on the server's word.

        Raises:
            UserError: the client is not of the group.
        """
        self._expect(announcement.client)
        self._keys[announcement.client] = announcement

    def relay_keys(self) -> tuple[KeyAnnouncement, ...]:
        """Return all keys, for all clients.

        Raises:
            DropoutError: some are missing.
        """
        self._all_of("key", self._keys)
        return tuple(self._keys[client] for client in self._clients)

    def ask(self, session: str, quantity: str) -> Request:
        """Return the request for one sum.

        Raises:
            UserError: the label was used before.
        """
        request = Request(session, quantity)
        if request in self._values or session in self._closed:
            raise UserError(f"masked sums: session '{session}' was used: start again with a new label")
        self._values[request] = {}
        return request

    def receive(self, message: MaskedValue) -> None:
        """Take a client's answer.

        Raises:
            UserError: the client is not of the group, answers twice, answers what was not asked, or not with a whole
                number below the modulus.
        """
        self._expect(message.client)
        value = whole(message.value, f"the answer of client {message.client}")
        if not 0 <= value < MODULUS:
            raise UserError(f"masked sums: the answer of client {message.client} is not within 0..2^64 - 1: refuse it")
        if message.request not in self._values or message.request.session in self._closed:
            raise UserError(f"masked sums: session '{message.request.session}' is not open: ask first")
        if message.client in self._values[message.request]:
            raise UserError(f"masked sums: client {message.client} answered twice: start again with a new label")
        self._values[message.request][message.client] = value

    def total(self, request: Request) -> Total:
        """Return the sum, for all clients. If it is not to be had, the session is over.

        Raises:
            DropoutError: some clients did not answer.
        """
        try:
            self._all_of("answer", self._values[request])
        except DropoutError:
            self._closed.add(request.session)
            raise
        return Total(request, sum(self._values[request].values()) % MODULUS)

    def seen(self, session: str, quantity: str) -> dict[int, int]:
        """Return the messages of a session by client: all that the server knows about the clients' numbers."""
        return dict(self._values.get(Request(session, quantity), {}))

    def _expect(self, client: int) -> None:
        if client not in self._clients:
            raise UserError(f"masked sums: client {client} is not of this group: name it when the server is made")

    def _all_of(self, what: str, received: dict[int, KeyAnnouncement] | dict[int, int]) -> None:
        missing = [client for client in self._clients if client not in received]
        if missing:
            raise DropoutError(what, missing)


# The protocol from beginning to end.


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

    Raises:
        UserError: there are fewer than two clients, or a value is no whole number or too large.
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
