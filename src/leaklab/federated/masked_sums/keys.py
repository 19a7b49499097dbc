"""Where private keys come from, and what is made of them: X25519 agreement and Ed25519 signatures.

The curves are those of the library ``cryptography``; nothing is implemented here.
"""

import os
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from leaklab.federated.masked_sums.messages import Certificate, KeyAnnouncement, certified
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

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
