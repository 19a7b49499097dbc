"""Keys, identities and masks: published vectors, symmetry, and every way of slipping in a false key."""

from dataclasses import replace

import pytest

from leaklab.federated.masked_sums.client import MaskedSumClient
from leaklab.federated.masked_sums.messages import (
    MODULUS,
    AgreementKey,
    CertificateAuthority,
    KeyAnnouncement,
    SeededKeys,
    SigningKey,
    SystemKeys,
    announced,
    encode,
    is_signed,
    pair_mask,
    total_mask,
)
from leaklab.records.errors import UserError

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


def test_agreement_gives_the_published_numbers():
    alice, bob = AgreementKey(ALICE), AgreementKey(BOB)
    assert (alice.public.hex(), bob.public.hex()) == (ALICE_PUBLIC, BOB_PUBLIC)
    assert alice.agree(bob.public).hex() == bob.agree(alice.public).hex() == SHARED


def test_signatures_give_the_published_numbers():
    """RFC 8032, section 7.1, test 1: the empty message."""
    key = SigningKey(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert key.public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert is_signed(b"", key.sign(b""), key.public)
    assert not is_signed(b"x", key.sign(b""), key.public)


@pytest.mark.parametrize("wrong", [bytes(32), b"short"], ids=["small order", "too short"])
def test_a_key_that_gives_no_secret_is_refused(wrong):
    with pytest.raises(UserError, match="no secret"):
        AgreementKey(ALICE).agree(wrong)


def test_seeded_keys_belong_to_seed_and_name():
    keys = SeededKeys(1)
    assert keys.private_key("client", 3) == SeededKeys(1).private_key("client", 3)
    others = [SeededKeys(2).private_key("client", 3), keys.private_key("client", 4), keys.private_key("authority")]
    assert keys.private_key("client", 3) not in others
    assert len(keys.private_key("client", 3)) == len(SystemKeys().private_key("client", 3)) == 32


def test_system_keys_never_come_twice():
    assert SystemKeys().private_key("client", 3) != SystemKeys().private_key("client", 3)


def test_a_pair_has_one_mask_and_every_name_counts():
    secret = AgreementKey(ALICE).agree(bytes.fromhex(BOB_PUBLIC))
    mask = pair_mask(secret, "s", "samples", 1, 2)
    assert mask == pair_mask(AgreementKey(BOB).agree(bytes.fromhex(ALICE_PUBLIC)), "s", "samples", 2, 1)
    others = [("t", "samples", 1, 2), ("s", "classes", 1, 2), ("s", "samples", 1, 3), ("s", "samples", 0, 2)]
    assert (
        len({mask, *(pair_mask(secret, *other) for other in others), pair_mask(bytes(32), "s", "samples", 1, 2)}) == 6
    )
    assert 0 <= mask < MODULUS


def test_smaller_partners_count_plus_and_larger_ones_minus():
    """Eq. (14), and so the masks of all clients cancel."""
    secrets = {(0, 1): b"a" * 32, (0, 2): b"b" * 32, (1, 2): b"c" * 32}

    def own(client):
        return {a + b - client: secret for (a, b), secret in secrets.items() if client in (a, b)}

    def mask(a, b):
        return pair_mask(secrets[a, b], "s", "q", a, b)

    assert total_mask(own(1), "s", "q", 1) == (mask(0, 1) - mask(1, 2)) % MODULUS
    assert sum(total_mask(own(client), "s", "q", client) for client in range(3)) % MODULUS == 0


def test_no_two_lists_of_parts_have_the_same_bytes():
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""), ("ab", b"c", "c")]
    assert len({encode(*parts) for parts in lists}) == len(lists)


@pytest.fixture
def keys():
    return SeededKeys(0)


@pytest.fixture
def authority(keys):
    return CertificateAuthority(keys)


@pytest.fixture
def clients(authority, keys):
    return [MaskedSumClient(number, {"samples": 1}, authority, keys) for number in range(3)]


def test_honest_keys_are_accepted(clients):
    relayed = [client.announce() for client in clients]
    for client in clients:
        client.accept(relayed)
    pairs = [(a, b) for a in clients for b in clients if a is not b]
    assert all(a._secrets[b.number] == b._secrets[a.number] for a, b in pairs)
    assert len({a._secrets[b.number] for a, b in pairs}) == 3


def exchanged(relayed):
    """The server puts its own key in place of client 1's."""
    return replace(relayed[1], public_key=AgreementKey(ALICE).public)


def swapped(relayed):
    """The server passes client 2's key, with its signature, off as client 1's."""
    return replace(relayed[2], certificate=relayed[1].certificate)


def bent(relayed):
    signature = relayed[1].signature
    return replace(relayed[1], signature=bytes([signature[0] ^ 1]) + signature[1:])


def renumbered(relayed):
    """The server claims that client 2's certificate is client 1's."""
    certificate = replace(relayed[2].certificate, client=1)
    return replace(relayed[2], certificate=certificate)


def of_another_authority(relayed):
    return MaskedSumClient(1, {}, CertificateAuthority(SeededKeys(9)), SeededKeys(8)).announce()


def self_certified(relayed):
    """The server certifies a key pair of its own as client 1's."""
    signing, agreement = SigningKey(BOB), AgreementKey(ALICE)
    certificate = CertificateAuthority(SeededKeys(9)).certify(1, signing.public)
    return KeyAnnouncement(agreement.public, signing.sign(announced(1, agreement.public)), certificate)


FORGERIES = [exchanged, swapped, bent, renumbered, of_another_authority, self_certified]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_key_that_is_not_its_owners_is_refused(clients, forge):
    relayed = [client.announce() for client in clients]
    relayed[1] = forge(relayed)
    with pytest.raises(UserError, match=r"client 1 is (false|not its own): stop"):
        clients[0].accept(relayed)
    assert clients[0]._secrets == {}


def test_two_keys_of_one_client_are_refused(clients):
    relayed = [client.announce() for client in clients]
    with pytest.raises(UserError, match="two keys"):
        clients[0].accept([*relayed, relayed[1]])


def test_a_list_without_the_clients_own_key_is_refused(clients):
    with pytest.raises(UserError, match="left out the key of client 0"):
        clients[0].accept([client.announce() for client in clients[1:]])


def test_a_number_is_certified_for_one_key_only(authority, clients):
    with pytest.raises(UserError, match="client 1 has a certificate"):
        authority.certify(1, SigningKey(BOB).public)
