"""The masked sums: exact, uniform to the server, all or nothing, and a key that is not its owner's is refused."""

from collections import Counter
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, kstest

from leaklab.federated.masked_sums import messages as masking
from leaklab.federated.masked_sums.client import MaskedSumClient
from leaklab.federated.masked_sums.messages import (
    MODULUS,
    CertificateAuthority,
    MaskedValue,
    Request,
    SeededKeys,
    SystemKeys,
    largest_value,
)
from leaklab.federated.masked_sums.session import (
    DropoutError,
    Group,
    MaskedSumServer,
    differences,
    form_group,
    run_session,
)
from leaklab.records.errors import UserError

BOTH = ("samples", "classes")
DEAL = [{"samples": 120 + 40 * k, "classes": k % 4 + 1} for k in range(6)]


@pytest.fixture
def group():
    return form_group(DEAL, SeededKeys(0))


def of_samples(numbers, seed=0):
    return form_group([{"samples": number} for number in numbers], SeededKeys(seed))


def messages(group, sessions, quantity="samples"):
    """Run many sessions; return what the server saw, sessions x clients, as shares of the modulus."""
    for session in range(sessions):
        run_session(group, f"{session}", [quantity])
    seen = [group.server.seen(f"{session}", quantity) for session in range(sessions)]
    return np.array([[row[client.number] for client in group.clients] for row in seen], dtype=float) / MODULUS


@given(st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 1000)), min_size=2, max_size=6), st.text(max_size=5))
@settings(max_examples=25, deadline=None)
def test_the_sums_are_exact(pairs, session):
    group = form_group([{"samples": n, "classes": y} for n, y in pairs], SeededKeys(1))
    sums = run_session(group, session, BOTH)
    assert sums == {"samples": sum(n for n, _ in pairs), "classes": sum(y for _, y in pairs)}
    assert all(client.totals == sums for client in group.clients)


def test_fresh_keys_of_the_system_give_the_same_sums_behind_other_messages():
    one, other = (form_group(DEAL, SystemKeys()) for _ in range(2))
    assert run_session(one, "a", BOTH) == run_session(other, "a", BOTH)
    assert not set(one.server.seen("a", "samples").values()) & set(other.server.seen("a", "samples").values())


def test_a_seed_gives_the_same_messages_again(group):
    again, other = form_group(DEAL, SeededKeys(0)), form_group(DEAL, SeededKeys(1))
    for one in (group, again, other):
        run_session(one, "a", BOTH)
    assert group.server.seen("a", "samples") == again.server.seen("a", "samples")
    assert group.server.seen("a", "samples") != other.server.seen("a", "samples")


def test_masks_change_with_the_session_and_the_quantity(group):
    run_session(group, "a", BOTH)
    run_session(group, "b", BOTH)
    found = [
        (group.server.seen(session, quantity)[client] - own[quantity]) % MODULUS
        for session in "ab"
        for quantity in BOTH
        for client, own in enumerate(DEAL)
    ]
    assert len(set(found)) == len(found)


def test_single_messages_are_uniform(group):
    """One client's messages over sessions, and independent messages (all but one client) of all sessions."""
    seen = messages(group, 300)
    assert kstest(seen[:, 0], "uniform").pvalue > 0.01
    assert kstest(seen[:, :-1].ravel(), "uniform").pvalue > 0.01
    assert np.abs(np.corrcoef(seen[:, :-1], rowvar=False) - np.eye(5)).max() < 4 / np.sqrt(300)


def test_numbers_with_the_same_sum_give_messages_of_the_same_law():
    """The server cannot tell who holds the data: every message, and the sum of any two, has the same law."""
    one, other = messages(of_samples([1, 2**61, 5]), 300), messages(of_samples([2**60, 2**60, 6], seed=1), 300)
    for client in range(3):
        assert ks_2samp(one[:, client], other[:, client]).pvalue > 0.01
        pair = [client, (client + 1) % 3]
        assert ks_2samp(one[:, pair].sum(1) % 1, other[:, pair].sum(1) % 1).pvalue > 0.01


@pytest.mark.parametrize("numbers", [(0, 1, 3), (2, 2, 0)])
def test_every_outcome_is_equally_likely_for_every_number(monkeypatch, numbers):
    """Exact, by going through all masks of a small modulus: all messages with the right sum come equally often."""
    monkeypatch.setattr(masking, "MODULUS", 5)
    seen = Counter()
    for drawn in product(range(5), repeat=3):
        of_pair = dict(zip([(0, 1), (0, 2), (1, 2)], drawn, strict=True))
        monkeypatch.setattr(masking, "pair_mask", lambda *names, mask=of_pair: mask[min(names[3:]), max(names[3:])])
        sent = [masking.total_mask(dict.fromkeys({0, 1, 2} - {k}, b""), "s", "q", k) for k in range(3)]
        seen[tuple((own + mask) % 5 for own, mask in zip(numbers, sent, strict=True))] += 1
    assert len(seen) == 25
    assert set(seen.values()) == {5}
    assert {sum(vector) % 5 for vector in seen} == {4}


def test_the_server_holds_messages_only(group):
    run_session(group, "a", BOTH)
    held = [part for value in vars(group.server).values() for part in flat(value)]
    assert not any(isinstance(part, MaskedSumClient | CertificateAuthority) for part in held)
    numbers = {part for part in held if isinstance(part, int)} - set(range(len(DEAL)))
    assert numbers == set(chain.from_iterable(group.server.seen("a", quantity).values() for quantity in BOTH))
    assert not numbers & {own[quantity] for own in DEAL for quantity in BOTH}


def flat(value):
    """Return everything in nested containers and messages."""
    if isinstance(value, dict):
        return [part for pair in value.items() for item in pair for part in flat(item)]
    if isinstance(value, set | tuple | list):
        return [part for item in value for part in flat(item)]
    return [value, *flat(list(vars(value).values()))] if hasattr(value, "__dict__") else [value]


def test_everybody_else_together_learns_the_last_number(group):
    """Inherent to a sum, whatever the masks."""
    sums = run_session(group, "a", ["samples"])
    assert sums["samples"] - sum(own["samples"] for own in DEAL[1:]) == DEAL[0]["samples"]


def test_shared_masks_show_the_difference_of_every_client():
    leaky = form_group(DEAL, SeededKeys(0), shared_masks=True)
    assert run_session(leaky, "a", BOTH) == run_session(form_group(DEAL, SeededKeys(0)), "a", BOTH)
    true = {client: own["samples"] - own["classes"] for client, own in enumerate(DEAL)}
    assert differences(leaky.server, "a", *BOTH) == true
    assert differences(leaky.server, "a", "classes", "samples") == {client: -d for client, d in true.items()}


def test_fresh_masks_show_the_difference_of_none(group):
    run_session(group, "a", BOTH)
    found = differences(group.server, "a", *BOTH)
    assert len(found) == len(DEAL)
    assert all(abs(difference) > 10**6 for difference in found.values())


def test_a_dropout_ends_the_session_and_a_new_label_succeeds(group):
    with pytest.raises(DropoutError, match=r"client 1, 4.*new session label") as failed:
        run_session(group, "a", BOTH, silent={4, 1})
    assert failed.value.missing == (1, 4)
    assert isinstance(failed.value, UserError)
    assert all(client.totals == {} for client in group.clients)
    with pytest.raises(UserError, match="'a' was used"):
        run_session(group, "a", BOTH)
    assert run_session(group, "b", BOTH)["samples"] == sum(own["samples"] for own in DEAL)


def test_a_late_answer_to_an_aborted_session_is_refused(group):
    with pytest.raises(DropoutError):
        run_session(group, "a", ["samples"], silent={2})
    late = MaskedValue(Request("a", "samples"), 2, 7)
    with pytest.raises(UserError, match="not open"):
        group.server.receive(late)


def test_the_clients_that_are_left_can_form_a_smaller_group(group):
    left = group.clients[:4]
    server = MaskedSumServer([client.number for client in left])
    for client in left:
        server.receive_key(client.announce())
    for client in left:
        client.accept(server.relay_keys())
    assert run_session(Group(server, left), "b", ["samples"]) == {"samples": sum(own["samples"] for own in DEAL[:4])}


def test_a_missing_key_is_a_dropout_too():
    server = MaskedSumServer([0, 1])
    server.receive_key(MaskedSumClient(0, {}, CertificateAuthority(SeededKeys(0)), SeededKeys(0)).announce())
    with pytest.raises(DropoutError, match="no key from client 1"):
        server.relay_keys()


def test_a_client_never_uses_its_masks_twice(group):
    """Two numbers behind the same mask would show their difference."""
    request = group.server.ask("a", "samples")
    group.clients[0].answer(request)
    with pytest.raises(UserError, match="new label"):
        group.clients[0].answer(request)


def test_a_number_that_could_take_the_sum_to_the_modulus_is_refused():
    limit = largest_value(3)
    assert 3 * limit < MODULUS <= 3 * (limit + 1)
    assert run_session(of_samples([limit] * 3), "a", ["samples"]) == {"samples": 3 * limit}
    for wrong in (limit + 1, MODULUS, -1):
        with pytest.raises(UserError, match="larger unit"):
            run_session(of_samples([0, wrong, 0]), "a", ["samples"])


@pytest.mark.parametrize("number", [1.5, 2.0, np.float64(2), "2", True, np.True_, None, torch.tensor(1.5)])
def test_what_is_no_whole_number_is_refused(number):
    with pytest.raises(UserError, match=r"'samples' of client 1 is .*only whole numbers can be hidden"):
        of_samples([2, number])


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.int8, np.uint8, torch.tensor])
def test_every_type_of_whole_numbers_adds_up(kind):
    sums = run_session(of_samples([kind(100), kind(27)]), "a", ["samples"])
    assert sums == {"samples": 127}
    assert type(sums["samples"]) is int


def test_a_sum_of_nobody_is_refused():
    with pytest.raises(UserError, match="there are no clients"):
        form_group([], SeededKeys(0))


@pytest.mark.parametrize("answer", [1.5, -1, MODULUS])
def test_an_answer_that_no_client_of_ours_gives_is_refused(answer):
    server = MaskedSumServer([0, 1])
    request = server.ask("a", "samples")
    with pytest.raises(UserError, match="the answer of client 0 is"):
        server.receive(MaskedValue(request, 0, answer))


def test_an_unknown_quantity_is_refused(group):
    with pytest.raises(UserError, match="has no 'labels': ask for samples, classes"):
        run_session(group, "a", ["labels"])


def test_one_client_alone_is_refused():
    with pytest.raises(UserError, match="at least two"):
        form_group(DEAL[:1], SeededKeys(0))


def test_no_secrets_no_answer():
    client = MaskedSumClient(0, DEAL[0], CertificateAuthority(SeededKeys(0)), SeededKeys(0))
    with pytest.raises(UserError, match="exchange keys"):
        client.answer(Request("a", "samples"))


def test_the_server_takes_one_answer_from_each_member(group):
    request = group.server.ask("a", "samples")
    answer = group.clients[0].answer(request)
    group.server.receive(answer)
    with pytest.raises(UserError, match="twice"):
        group.server.receive(answer)
    with pytest.raises(UserError, match="not of this group"):
        group.server.receive(replace(answer, client=17))
    with pytest.raises(UserError, match="ask first"):
        group.server.receive(replace(answer, request=Request("b", "samples")))
