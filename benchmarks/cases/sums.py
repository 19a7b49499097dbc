"""Masked sums: the right sum, or one line; what a server or a thief alters is never added up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from cases.outcomes import TAKEN, ensure, read_or_refused, refused
from cases.spoil import JUNK, Draw, damaged
from leaklab.federated.masked_sums.client import MaskedSumClient
from leaklab.federated.masked_sums.messages import (
    MODULUS,
    CertificateAuthority,
    KeyAnnouncement,
    MaskedValue,
    SeededKeys,
    largest_value,
)
from leaklab.federated.masked_sums.session import MaskedSumServer, form_group, run_session
from leaklab.records.errors import UserError

QUANTITIES = ("samples", "classes", "größe", "a\nb", "", "x" * 300)
WHOLE = st.integers(0, 9) | st.integers(0, 10**6) | st.integers(-2, 2**64 + 2)
WHOLE |= st.sampled_from([0, MODULUS - 1, MODULUS // 2, MODULUS // 3])
AS_OTHERS = (
    int, np.int64, np.uint64, np.float64, torch.tensor, np.array, str, lambda n: torch.tensor(bool(n % 2)),
    lambda n: np.bool_(n % 2), lambda n: torch.tensor([n]),
)  # fmt: skip
LABELS = st.sampled_from(["round 1", "", "a\nb", "é", "x" * 5000])


def values(draw: Draw) -> Any:
    """Return a number as one type or another, or what is none."""
    if draw(st.integers(0, 12)) == 0:
        return draw(JUNK)
    number = draw(WHOLE)
    if draw(st.integers(0, 3)):
        return number
    try:
        return draw(st.sampled_from(AS_OTHERS))(number)
    except (OverflowError, RuntimeError, TypeError, ValueError):  # that type has no such number
        return number


def case(draw: Draw, folder: Path) -> str:
    """Sum drawn numbers, or let somebody alter what is sent."""
    return draw(st.sampled_from([whole_session, whole_session, forged_key, odd_answer]))(draw)


def whole_session(draw: Draw) -> str:
    """Run sessions; the sums are those of the numbers, and a silent client ends its session and no other."""
    count = draw(st.sampled_from([2, 3, 4, 5, 2, 3, 1, 0]))
    names = draw(st.lists(st.sampled_from(QUANTITIES), min_size=1, max_size=2, unique=True))
    given = [{name: values(draw) for name in names} for _ in range(count)]
    silent = {draw(st.integers(0, 5))} if draw(st.integers(0, 4)) == 0 else set()
    asked = [*names, *(["no such"] if draw(st.integers(0, 9)) == 0 else [])]
    labels = draw(st.lists(LABELS, min_size=1, max_size=2))
    group, outcome = read_or_refused(form_group, given, SeededKeys(draw(st.integers(0, 3))))
    if group is None:
        return outcome
    summed = False
    for number, label in enumerate(labels):
        found, outcome = read_or_refused(run_session, group, label, asked, silent)
        if found is None:
            continue
        summed = True
        ensure(label not in labels[:number] and not silent & set(range(count)), "a label or a client too many")
        for name in names:
            own = [int(one[name]) for one in given]
            ensure(all(not isinstance(one[name], bool | str | float) for one in given), f"{given!r} was summed")
            ensure(found[name] == sum(own), f"{found[name]} is not the sum of {own}")
            ensure(all(0 <= one <= largest_value(count) for one in own), f"{own} could reach the modulus")
            ensure(all(client.totals[name] == sum(own) for client in group.clients), "a client learnt another sum")
    return TAKEN if summed else outcome


def _group(count: int) -> tuple[CertificateAuthority, list[MaskedSumClient]]:
    keys = SeededKeys(0)
    authority = CertificateAuthority(keys)
    return authority, [MaskedSumClient(k, {"samples": k + 1}, authority, keys) for k in range(count)]


def forged_key(draw: Draw) -> str:
    """Alter one announcement: no client may agree on a secret with what was altered."""
    _, clients = _group(draw(st.integers(2, 4)))
    sent = [client.announce() for client in clients]
    place = draw(st.integers(0, len(sent) - 1))
    forged = _altered(sent, place, draw)
    listener = clients[draw(st.integers(0, len(clients) - 1))]
    try:
        listener.accept(forged)
    except UserError as error:
        return refused(error)
    honest = {one.client: one.public_key for one in sent}
    ensure(all(honest.get(one.client) == one.public_key for one in forged), "a forged key was accepted")
    return TAKEN


def _altered(sent: list[KeyAnnouncement], place: int, draw: Draw) -> list[KeyAnnouncement]:
    one, certificate = sent[place], sent[place].certificate
    other = sent[place - 1]
    choices = {
        "key": lambda: replace(one, public_key=damaged(one.public_key, draw)),
        "no secret": lambda: replace(one, public_key=bytes(32)),
        "signature": lambda: replace(one, signature=damaged(one.signature, draw)),
        "certificate": lambda: replace(
            one, certificate=replace(certificate, signature=damaged(certificate.signature, draw))
        ),
        "number": lambda: replace(one, certificate=replace(certificate, client=draw(st.integers(-2, 9)))),
        "another's": lambda: replace(one, certificate=other.certificate),
        "another's key": lambda: replace(one, public_key=other.public_key),
        "own certificate": lambda: replace(
            one, certificate=replace(certificate, signing_key=damaged(certificate.signing_key, draw))
        ),
        "twice": lambda: other,
        "none": lambda: one,
    }  # fmt: skip
    found = choices[draw(st.sampled_from(sorted(choices)))]()
    kept = [*sent[:place], found, *sent[place + 1 :]]
    return kept[: draw(st.sampled_from([len(kept), len(kept), place]))]


def odd_answer(draw: Draw) -> str:
    """Send the server answers of all kinds: each counts once, and only what was asked is summed."""
    _, clients = _group(3)
    server = MaskedSumServer(range(3))
    for client in clients:
        server.receive_key(client.announce())
    relayed = server.relay_keys()
    for client in clients:
        client.accept(relayed)
    request = server.ask("s", "samples")
    right = [client.answer(request) for client in clients]
    odd = MaskedValue(
        draw(st.sampled_from([request, replace(request, session="other"), replace(request, quantity="other")])),
        draw(st.integers(-1, 4)), values(draw),
    )  # fmt: skip
    before = draw(st.integers(0, 3))
    for message in right[:before]:
        server.receive(message)
    _, outcome = read_or_refused(server.receive, odd)
    if outcome is TAKEN:
        ensure(odd.client not in range(before) and odd.request == request, "an answer that nobody asked for")
        ensure(server.seen("s", "samples")[odd.client] == int(odd.value), "another number than was sent")
        return outcome
    for message in right[before:]:
        server.receive(message)
    ensure(server.total(request).value == 6, "a refused answer changed the sum")
    return outcome
