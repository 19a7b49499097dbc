"""The loop over samples does what the plug-in does; every algorithm of the benchmark can be trained."""

import pytest
import torch
from algorithm_speed.contest import work_of
from algorithm_speed.contestants import CONTESTANTS, MADE, NOISE
from algorithm_speed.workers.loop import noisy_mean
from algorithm_speed.workers.ours import spec_of
from algorithm_speed.workloads import LOOP_STEPS, WORKLOADS
from torch import nn
from torch.func import functional_call

from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 8, 8), 5


def test_the_loop_clips_as_the_engine_does():
    draws = stream(0, "samples")
    images, labels = draws.normal(6, *SHAPE).double(), draws.integers(0, CLASSES, 6)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.Sigmoid(), nn.Linear(7, CLASSES)).double()
    found = noisy_mean(network, images, labels, sigma=0.0)
    weights = {name: value.detach() for name, value in network.named_parameters()}
    bound = NOISE["bound"]
    expected = []
    for image, label in zip(images, labels, strict=True):
        held = {name: value.clone().requires_grad_() for name, value in weights.items()}
        loss = nn.functional.cross_entropy(functional_call(network, held, (image[None],)), label[None])
        gradient = torch.cat([value.flatten() for value in torch.autograd.grad(loss, list(held.values()))])
        expected.append(gradient * min(1.0, bound / float(gradient.norm())))
    flat = torch.cat([value.flatten() for value in found])
    torch.testing.assert_close(flat, torch.stack(expected).mean(0), rtol=1e-9, atol=1e-12)
    assert float(flat.norm()) <= bound


@pytest.mark.parametrize("name", MADE)
def test_every_algorithm_is_a_training(name):
    [workload] = WORKLOADS
    spec = spec_of(workload, MADE[name])
    assert spec.rounds == workload.rounds + 2
    assert spec.local_steps == workload.local_steps


def test_others_are_asked_for_one_client_and_the_loop_for_few_steps():
    [workload] = WORKLOADS
    asked = {one.name: work_of(one, workload).steps for one in CONTESTANTS}
    assert asked["dp-loop"] == LOOP_STEPS
    assert asked["opacus"] * workload.clients == asked["hyperfl"] == workload.steps
