"""The server's view of the masked sums: the numbers of a sound protocol, and what the statistics would catch."""

import numpy as np
import pytest

from leaklab.federated.masked_sums import messages
from leaklab.federated.masked_sums.messages import MODULUS
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.base import Clients
from leaklab.theory.masked_sum_transcript import MaskedSumTranscript, uniformity

DEAL = Clients(sizes=tuple(160 + 40 * k for k in range(12)), class_counts=tuple(k % 4 + 1 for k in range(12)))
CHECK = MaskedSumTranscript(sessions=30, halvings=2)


def untracked(items, total, label):
    return items


def numbers(check=CHECK, clients=DEAL, seed=0):
    return list(check.run(seed, clients, untracked))


def by_metric(found):
    single = {number.metric: number.value for number in found if number.metric != "seconds"}
    assert sum(number.metric != "seconds" for number in found) == len(single)
    return single


def test_the_plugin_is_found_by_name():
    assert plugins.load("theory", "masked-sum-transcript", {"sessions": 30, "halvings": 2}) == CHECK


def test_the_protocol_is_exact_hides_and_leaks_only_with_reused_masks():
    found = numbers()
    single = by_metric(found)
    assert single.pop("ks_pvalue_message") >= 0.01
    assert single == {
        "sum_error": 0,
        "messages_equal_inputs": 0,
        "difference_leak_fresh_masks": 0,
        "difference_leak_reused_masks": 1,
    }
    assert all(number.row == {"N": 12} for number in found if number.metric != "seconds")


def test_times_stand_against_the_number_of_clients():
    times = [number for number in numbers() if number.metric == "seconds"]
    assert [time.row for time in times] == [{"N": 3}, {"N": 6}, {"N": 12}]
    assert all(time.value > 0 for time in times)


def test_no_group_is_halved_below_two_clients():
    few = Clients((5, 6, 7), (1, 2, 3))
    times = [n for n in numbers(MaskedSumTranscript(sessions=2, halvings=5), few) if n.metric == "seconds"]
    assert [time.row["N"] for time in times] == [3]


def test_all_but_the_clock_comes_out_again():
    assert by_metric(numbers(seed=4)) == by_metric(numbers(seed=4))
    assert by_metric(numbers(seed=4)) != by_metric(numbers(seed=5))


def test_missing_masks_would_be_seen(monkeypatch):
    monkeypatch.setattr("leaklab.federated.masked_sums.client.total_mask", lambda *_: 0)
    single = by_metric(numbers())
    assert single["messages_equal_inputs"] == 2 * 30 * 12
    assert single["ks_pvalue_message"] < 1e-6
    assert single["difference_leak_fresh_masks"] == 1


def test_masks_that_do_not_cancel_would_be_seen(monkeypatch):
    monkeypatch.setattr("leaklab.federated.masked_sums.client.total_mask", lambda *_: 1)
    assert by_metric(numbers())["sum_error"] == 2 * 30 * 12


def test_masks_over_the_plain_integers_would_be_seen(monkeypatch):
    """Without a modulus a sum of many masks is bell-shaped."""
    true = messages.pair_mask
    monkeypatch.setattr(messages, "pair_mask", lambda *args: true(*args) // 12)
    assert by_metric(numbers(MaskedSumTranscript(sessions=100, halvings=0)))["ks_pvalue_message"] < 0.01


def test_the_p_value_is_uniform_or_larger_under_the_hypothesis():
    """At most a share p of uniform transcripts has a p-value below p."""
    values = []
    for repetition in range(200):
        draws = stream(repetition, "messages").uniform(2, 20, 10).numpy()
        draws[:, :, -1] = -draws[:, :, :-1].sum(-1) % 1
        values.append(uniformity((draws * MODULUS).tolist()))
    for level in (0.05, 0.2):
        assert np.mean(np.array(values) < level) < level + 3 * np.sqrt(level * (1 - level) / 200)
    assert np.mean(np.array(values) < 0.2) > 0.05


@pytest.mark.parametrize("clients", [None, Clients((5,), (1,))], ids=["no deal", "one client"])
def test_a_deal_is_needed(clients):
    with pytest.raises(UserError, match="partition"):
        numbers(clients=clients)


@pytest.mark.parametrize("check", [MaskedSumTranscript(sessions=0), MaskedSumTranscript(halvings=-1)])
def test_settings_without_work_are_refused(check):
    with pytest.raises(UserError, match="sessions"):
        numbers(check)
