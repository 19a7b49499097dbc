"""A client: holds private numbers, agrees on secrets with all others, answers with masked numbers."""

from collections.abc import Mapping, Sequence

from leaklab.federated.masked_sums.messages import (
    MODULUS,
    AgreementKey,
    CertificateAuthority,
    KeyAnnouncement,
    KeySource,
    MaskedValue,
    Request,
    SigningKey,
    Total,
    announced,
    check_announcement,
    largest_value,
    total_mask,
    whole,
)
from leaklab.records.errors import UserError

SMALLEST_GROUP = 2


class MaskedSumClient:
    """One client.

    Attributes:
        number: the client's number.
        totals: the sums that the server announced, by quantity; the latest session counts.
    """

    def __init__(
        self,
        number: int,
        values: Mapping[str, int],
        authority: CertificateAuthority,
        keys: KeySource,
        shared_masks: bool = False,
    ) -> None:
        """Make the client's keys and have its identity certified.

        Args:
            number: the client's number.
            values: its private numbers by quantity, e.g. ``{"samples": 480, "classes": 3}``.
            authority: who certifies the client.
            keys: where its private keys come from: ``SystemKeys()`` for real use, ``SeededKeys(seed)`` for experiments.
            shared_masks: UNSAFE, only to show the leak: one mask for all quantities of a session, so that the server
                can subtract a client's answers and learns the difference of its numbers.

        Raises:
            UserError: a value is no whole number.
        """
        self.number = number
        self.totals: dict[str, int] = {}
        self._values = {key: whole(value, f"'{key}' of client {number}") for key, value in values.items()}
        self._authority_key = authority.public_key
        self._signing = SigningKey(keys.private_key("client", number, "identity"))
        self._agreement = AgreementKey(keys.private_key("client", number, "agreement"))
        self._certificate = authority.certify(number, self._signing.public)
        self._shared_masks = shared_masks
        self._secrets: dict[int, bytes] = {}
        self._answered: set[Request] = set()

    def announce(self) -> KeyAnnouncement:
        """Return the client's signed key."""
        key = self._agreement.public
        return KeyAnnouncement(key, self._signing.sign(announced(self.number, key)), self._certificate)

    def accept(self, announcements: Sequence[KeyAnnouncement]) -> None:
        """Check all clients' keys, as the server relayed them, and agree on a secret with each other client.

        Raises:
            UserError: a key is forged or exchanged, a client is there twice, this client's own key is missing, or the
                group is too small to hide anybody.
        """
        keys = {announcement.client: announcement.public_key for announcement in announcements}
        if len(keys) < len(announcements):
            raise UserError("masked sums: the server sent two keys of one client: stop, do not answer")
        if len(keys) < SMALLEST_GROUP:
            raise UserError("masked sums: a sum over one client is its number: ask at least two clients")
        for announcement in announcements:
            check_announcement(announcement, self._authority_key)
        if keys.pop(self.number, None) != self._agreement.public:
            raise UserError(f"masked sums: the server left out the key of client {self.number}: stop, do not answer")
        self._secrets = {other: self._agreement.agree(key) for other, key in keys.items()}

    def answer(self, request: Request) -> MaskedValue:
        """Return the masked number that the server asks for.

        Raises:
            UserError: no keys yet, no such quantity, a session label that was used before (the same masks would hide
                two messages), or a number with which the sum could reach the modulus.
        """
        if not self._secrets:
            raise UserError("masked sums: no secrets yet: exchange keys before asking for a sum")
        if request in self._answered:
            raise UserError(f"masked sums: session '{request.session}' was used: start again with a new label")
        value = self._value(request.quantity)
        self._answered.add(request)
        label = "shared" if self._shared_masks else request.quantity
        mask = total_mask(self._secrets, request.session, f"mask of {label}", self.number)
        return MaskedValue(request, self.number, (value + mask) % MODULUS)

    def learn(self, total: Total) -> None:
        """Take note of a sum."""
        self.totals[total.request.quantity] = total.value

    def _value(self, quantity: str) -> int:
        if quantity not in self._values:
            raise UserError(f"masked sums: client {self.number} has no '{quantity}': ask for {', '.join(self._values)}")
        limit = largest_value(len(self._secrets) + 1)
        if not 0 <= self._values[quantity] <= limit:
            raise UserError(
                f"masked sums: '{quantity}' of client {self.number} is not within 0..{limit}, so the sum could reach "
                f"the modulus 2^64: give it in a larger unit"
            )
        return self._values[quantity]
