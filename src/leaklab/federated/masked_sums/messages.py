"""What clients and server send each other, and the bytes that a signature or a key derivation covers."""

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from leaklab.records.errors import UserError
from leaklab.records.streams import stream


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


def whole(value: object, whose: str) -> int:
    """Return a whole number of any type that counts as one (Python's, NumPy's, a tensor without axes) as Python's own.

    Args:
        value: what may be one; true and false are none.
        whose: whose number it is, for the error.

    Raises:
        UserError: it is no whole number: the sum of all masks would be none either, and hide nothing.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise UserError(f"masked sums: {whose} is {value!r:.40}: only whole numbers can be hidden: use a smaller unit")


def largest_value(clients: int) -> int:
    """Return the largest number that each of ``clients`` may hold so that no sum reaches the modulus."""
    return (MODULUS - 1) // clients


# Where private keys come from, and what is made of them: X25519 agreement and Ed25519 signatures.
#
# The curves are those of the library ``cryptography``; nothing is implemented here.


KEY_BYTES = 32


class KeySource(Protocol):
    """Gives out private keys. Every key of the protocol comes from one that its user names."""

    def private_key(self, *name: str | int) -> bytes:
        """Return 32 secret bytes for the key called ``name``, e.g. ``("client", 3, "agreement")``."""
        ...


@dataclass(frozen=True)
class SystemKeys:
    """Keys from the operating system's generator: for real use. No key comes twice, whatever its name."""

    def private_key(self, *name: str | int) -> bytes:
        """Return 32 fresh bytes."""
        return os.urandom(KEY_BYTES)


@dataclass(frozen=True)
class SeededKeys:
    """Keys from a named stream: for experiments that must come out the same again.

    Who knows the seed knows every key and unmasks every message, so these keys protect nothing.

    Attributes:
        seed: seed of the streams.
    """

    seed: int

    def private_key(self, *name: str | int) -> bytes:
        """Return the 32 bytes that belong to seed and name."""
        return bytes(stream(self.seed, "masked-sums", *name).integers(0, 256, KEY_BYTES).tolist())


class AgreementKey:
    """An X25519 key pair (RFC 7748): two clients make the same secret of their own and the other's key."""

    def __init__(self, private: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, other: bytes) -> bytes:
        """Return the 32 bytes shared with the owner of the public key ``other``.

        Raises:
            UserError: ``other`` is no key, or one that makes every secret the same.
        """
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise UserError("masked sums: a public key gives no secret: let its owner make a new one") from None


class SigningKey:
    """An Ed25519 key pair."""

    def __init__(self, private: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of ``message``, 64 bytes."""
        return self._private.sign(message)


def is_signed(message: bytes, signature: bytes, public: bytes) -> bool:
    """Whether ``signature`` of ``message`` was made with the private key of ``public``."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# A small public key infrastructure: an authority says whose signing key is whose, outside the server's reach.


class CertificateAuthority:
    """Signs the clients' identities; every client knows its public key beforehand and from elsewhere."""

    def __init__(self, keys: KeySource) -> None:
        self._key = SigningKey(keys.private_key("authority"))
        self._certified: dict[int, bytes] = {}

    @property
    def public_key(self) -> bytes:
        """The key that certificates are checked with."""
        return self._key.public

    def certify(self, client: int, signing_key: bytes) -> Certificate:
        """Return the certificate of a client's signing key.

        Raises:
            UserError: the number belongs to another key already.
        """
        if self._certified.setdefault(client, signing_key) != signing_key:
            raise UserError(f"masked sums: client {client} has a certificate for another key: choose another number")
        return Certificate(client, signing_key, self._key.sign(certified(client, signing_key)))


def check_announcement(announcement: KeyAnnouncement, authority_key: bytes) -> None:
    """Refuse a key that its certified owner did not announce.

    Args:
        announcement: as the server relayed it.
        authority_key: public key of the authority.

    Raises:
        UserError: the certificate or the key's signature is false.
    """
    certificate = announcement.certificate
    if not is_signed(certificate.covered, certificate.signature, authority_key):
        raise UserError(f"masked sums: the certificate of client {announcement.client} is false: stop, do not answer")
    if not is_signed(announcement.covered, announcement.signature, certificate.signing_key):
        raise UserError(f"masked sums: the key of client {announcement.client} is not its own: stop, do not answer")
