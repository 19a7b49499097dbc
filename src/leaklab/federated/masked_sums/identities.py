"""A small public key infrastructure: an authority says whose signing key is whose, outside the server's reach."""

from leaklab.federated.masked_sums.keys import KeySource, SigningKey, is_signed
from leaklab.federated.masked_sums.messages import Certificate, KeyAnnouncement, certified
from leaklab.records.errors import UserError


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
