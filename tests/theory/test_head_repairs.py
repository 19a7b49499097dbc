"""What would stop the head attack: exact readings where nothing is hidden, and failure where the heads are missing."""

import pytest
import torch
from torch.testing import assert_close

from leaklab.attacks.private_parts.hypernetwork import Heads
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.theory.head_repairs import NAME, HeadRepairs, _mean_gradient, _through
from leaklab.theory.hyper_client import HyperClient

SMALL = {"images": 2, "clients": 4, "side": 16, "embedding": 16, "hidden": 32, "iterations": 120}


@pytest.fixture(scope="module")
def numbers():
    found = HeadRepairs(**SMALL).run(0, None, lambda values, total, label: values)
    return {(one.metric, one.row["repair"]): one.value for one in found}


@pytest.mark.parametrize("repair", ["printed", "no-head-biases", "sum"])
def test_neither_leaving_the_biases_out_nor_adding_messages_hides_anything(numbers, repair):
    assert numbers["gradient_error", repair] < 1e-9
    assert numbers["weights_error", repair] < 1e-9
    assert numbers["psnr", repair] > numbers["psnr", "unrelated"] + 6


def test_without_any_bias_only_the_size_is_open(numbers):
    assert numbers["gradient_error", "no-biases"] < 1e-6
    assert numbers["weights_error", "no-biases"] > 1e-3


def test_noise_on_the_biases_averages_out_and_noise_on_all_hides_as_it_hides_a_plain_gradient(numbers):
    assert numbers["gradient_error", "noisy-biases"] < 1e-6
    assert numbers["weights_error", "noisy-biases"] < 0.01
    assert numbers["gradient_error", "noise"] > 0.3
    assert numbers["psnr", "noise"] < numbers["psnr", "noise-fedavg"] + 3
    assert numbers["psnr", "noise-fedavg"] < numbers["psnr", "fedavg"] - 6


def test_with_private_heads_the_attack_fails(numbers):
    assert numbers["psnr", "private-heads"] < numbers["psnr", "unrelated"] + 1


def test_the_mean_gradient_of_one_step_is_the_gradient():
    client = HyperClient(HeadRepairs(**SMALL).setting(0), 1)
    found = _mean_gradient(client, 1)
    for name in ("a", "c", "w", "b"):
        assert_close(getattr(found, name), getattr(client.gradient, name), rtol=1e-7, atol=1e-10)


def test_seen_through_the_true_heads_the_inner_derivative_fits():
    client = HyperClient(HeadRepairs(**SMALL).setting(0), 0)
    reached = client.sent.a * (client.sent.hidden(client.embedding) > 0)
    own = [client.slopes[name][None].clone() for name in client.sent.shapes]
    distance, slopes, _ = _through(reached, client.gradient.b)(own, own)
    assert float(distance[0]) < 1e-12
    other = [torch.ones_like(value, requires_grad=True) for value in own]
    distance, slopes, _ = _through(reached, client.gradient.b)([value.detach() for value in other], own)
    flat = torch.cat([value.flatten(1) for value in other], 1)
    seen = flat @ reached
    wanted = torch.autograd.grad(
        (1 - torch.nn.functional.cosine_similarity(seen, client.gradient.b[None])).sum(), other
    )
    assert_close(list(slopes), list(wanted))


def test_the_setting_draws_one_hypernetwork_for_all_clients():
    setting = HeadRepairs(**SMALL).setting(0)
    first, second = HyperClient(setting, 0), HyperClient(setting, 1)
    assert first.sent is second.sent
    assert isinstance(first.sent, Heads)
    assert not torch.equal(first.embedding, second.embedding)
    assert setting.generator == Hypernetwork(16, 32)
    assert setting.name == NAME
