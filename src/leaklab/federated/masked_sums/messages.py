"""What clients and server send each other, and the bytes that a signature or a key derivation covers."""

from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


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


# Masks that cancel: what a pair of clients derives from its secret, and with which sign each of the two uses it.

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
