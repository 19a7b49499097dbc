"""What a server sees of the masked sums: are they exact, do the messages look uniform, do reused masks leak?

Source: LRP paper, eq. (14); claims LRP-34 and LRP-37.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import kstest

from leaklab.federated.masked_sums.messages import MODULUS, SeededKeys
from leaklab.federated.masked_sums.session import Group, differences, form_group, run_session
from leaklab.records.bounds import Count, Natural
from leaklab.records.errors import UserError
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Clients, Number, Track

SAMPLES, CLASSES = QUANTITIES = ("samples", "classes")
Values = Sequence[Mapping[str, int]]
Messages = list[list[int]]


@dataclass(frozen=True)
class MaskedSumTranscript:
    """Runs the protocol on the deal's n_k and Y_k and looks at it with the server's eyes.

    All numbers belong to the row ``N``, the number of clients. Keys come from the seed, so that everything but the
    clock comes out the same again.

    Attributes:
        sessions: sessions of the whole group, with the same keys and numbers and a label of its own each.
        halvings: how often the group is halved for the times: N, N/2, N/4, ...
    """

    traits: ClassVar[CheckTraits] = CheckTraits(timed=("seconds",))

    sessions: Count = 100
    halvings: Natural = 3

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return the numbers.

        ``sum_error``: sum of the absolute errors of both sums over all sessions. ``messages_equal_inputs``: messages
        that equal the number they hide. ``ks_pvalue_message``: see ``uniformity``. ``difference_leak_fresh_masks``
        and ``difference_leak_reused_masks``: share of clients whose n_k - Y_k the server computes. ``seconds``: wall
        time of the exchange of keys and one session of both sums, all clients one after the other on this machine.

        Args:
            seed: seed of all private keys.
            clients: the deal.
            track: wraps the loop over sessions.

        Raises:
            UserError: no deal, a deal of fewer than two clients, or settings that leave nothing to do.
        """
        values = _values_of(clients)
        if self.sessions < 1 or self.halvings < 0:
            raise UserError("check masked-sum-transcript: set sessions to 1 or more and halvings to 0 or more")
        group = form_group(values, SeededKeys(seed))
        row = {"N": len(values)}
        yield Number("sum_error", _sum_error(group, values, track(range(self.sessions), self.sessions, "session")), row)
        seen = [_seen(group, quantity, self.sessions) for quantity in QUANTITIES]
        yield Number("ks_pvalue_message", uniformity(seen), row)
        yield Number("messages_equal_inputs", _equal_inputs(seen, values), row)
        yield Number("difference_leak_fresh_masks", _difference_leak(group, values), row)
        unsafe = form_group(values, SeededKeys(seed), shared_masks=True)
        run_session(unsafe, _label(0), QUANTITIES)
        yield Number("difference_leak_reused_masks", _difference_leak(unsafe, values), row)
        for size in _sizes(len(values), self.halvings):
            yield Number("seconds", _seconds(values[:size], seed), {"N": size})


def uniformity(seen: Iterable[Messages]) -> float:
    """Return the p-value of the hypothesis that single messages are uniform on [0, 2^64).

    Two views of the messages of each quantity, each a Kolmogorov-Smirnov test of independent messages if the
    hypothesis holds: the first client's over all sessions, and all clients' but the last in the first session (the
    last message follows from the others and the sum, so it must not be counted). The smallest p-value times the
    number of tests (Bonferroni) is a p-value whatever the tests have in common: with uniform messages it falls below
    0.01 for at most one seed in a hundred. The seed is fixed beforehand, not chosen by the outcome.

    Args:
        seen: for each quantity the messages by session and client.
    """
    views = [view for messages in seen for view in ([session[0] for session in messages], messages[0][:-1])]
    pvalues = [kstest(np.array(view, dtype=np.float64) / MODULUS, "uniform").pvalue for view in views]
    return min(1.0, len(pvalues) * float(min(pvalues)))


def _values_of(clients: Clients | None) -> Values:
    if clients is None or len(clients.sizes) < 2:
        raise UserError("check masked-sum-transcript: name a dataset and a partition with at least two clients")
    pairs = zip(clients.sizes, clients.class_counts, strict=True)
    return [{SAMPLES: size, CLASSES: count} for size, count in pairs]


def _label(session: int) -> str:
    return f"session {session}"


def _sum_error(group: Group, values: Values, sessions: Iterable[int]) -> int:
    true = {quantity: sum(own[quantity] for own in values) for quantity in QUANTITIES}
    found = (run_session(group, _label(session), QUANTITIES) for session in sessions)
    return sum(abs(sums[quantity] - true[quantity]) for sums in found for quantity in QUANTITIES)


def _seen(group: Group, quantity: str, sessions: int) -> Messages:
    numbers = [client.number for client in group.clients]
    received = [group.server.seen(_label(session), quantity) for session in range(sessions)]
    return [[messages[number] for number in numbers] for messages in received]


def _equal_inputs(seen: Sequence[Messages], values: Values) -> int:
    return sum(
        message == own[quantity]
        for quantity, sessions in zip(QUANTITIES, seen, strict=True)
        for messages in sessions
        for message, own in zip(messages, values, strict=True)
    )


def _difference_leak(group: Group, values: Values) -> float:
    found = differences(group.server, _label(0), SAMPLES, CLASSES)
    right = sum(found[client] == own[SAMPLES] - own[CLASSES] for client, own in enumerate(values))
    return right / len(values)


def _sizes(clients: int, halvings: int) -> list[int]:
    sizes = {clients >> halving for halving in range(halvings + 1)}
    return sorted(size for size in sizes if size >= 2)


def _seconds(values: Values, seed: int) -> float:
    start = time.perf_counter()
    run_session(form_group(values, SeededKeys(seed)), _label(0), QUANTITIES)
    return time.perf_counter() - start


PLUGIN = MaskedSumTranscript
