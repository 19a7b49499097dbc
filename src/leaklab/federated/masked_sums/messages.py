"""What clients and server send each other, and the bytes that a signature or a key derivation covers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """The authority's word that a signing key belongs to a client.

    Attributes:
        client: the client's number.
        signing_key: its Ed25519 public key, 32 bytes.
        signature: of ``covered`` by the authority, 64 bytes.
    """

    client: int
    signing_key: bytes
    signature: bytes

    @property
    def covered(self) -> bytes:
        """What the authority signs."""
        return certified(self.client, self.signing_key)


@dataclass(frozen=True)
class KeyAnnouncement:
    """A client's key for the agreement with every other client; the server relays it.

    Attributes:
        public_key: X25519 public key, 32 bytes.
        signature: of ``covered`` by the key in ``certificate``, 64 bytes.
        certificate: whose key that is.
    """

    public_key: bytes
    signature: bytes
    certificate: Certificate

    @property
    def client(self) -> int:
        """The client's number, as certified."""
        return self.certificate.client

    @property
    def covered(self) -> bytes:
        """What the client signs."""
        return announced(self.client, self.public_key)


@dataclass(frozen=True)
class Request:
    """The server asks every client for its masked number.

    Attributes:
        session: label of the session; used once.
        quantity: what is summed, e.g. ``samples``.
    """

    session: str
    quantity: str


@dataclass(frozen=True)
class MaskedValue:
    """A client's answer.

    Attributes:
        request: what was asked.
        client: who answers.
        value: its number plus its masks, in [0, 2^64).
    """

    request: Request
    client: int
    value: int


@dataclass(frozen=True)
class Total:
    """The sum that the server sends to all clients."""

    request: Request
    value: int


def certified(client: int, signing_key: bytes) -> bytes:
    """Return what the authority signs."""
    return encode("certificate", client, signing_key)


def announced(client: int, public_key: bytes) -> bytes:
    """Return what a client signs."""
    return encode("key", client, public_key)


def encode(*parts: str | int | bytes) -> bytes:
    """Return the parts as bytes, each after its length, so that no two lists of parts look alike."""
    raw = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in raw)
