"""The loop over samples does what the plug-in does; every algorithm of the benchmark can be trained."""

import pytest
import torch
from algorithm_speed.contest import work_of
from algorithm_speed.contestants import CONTESTANTS, MADE, NOISE
from algorithm_speed.workers.loop import noisy_mean
from algorithm_speed.workers.ours import spec_of
from algorithm_speed.workloads import LOOP_STEPS, WORKLOADS
from torch import nn

from leaklab.defenses.per_sample import sample_gradients
from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 8, 8), 5


def test_the_loop_clips_as_the_gradients_of_all_samples_at_once_would_be():
    draws = stream(0, "samples")
    images, labels = draws.normal(6, *SHAPE).double(), draws.integers(0, CLASSES, 6)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.Sigmoid(), nn.Linear(7, CLASSES)).double()
    found = torch.cat([value.flatten() for value in noisy_mean(network, images, labels, sigma=0.0)])
    names = [name for name, _ in network.named_parameters()]
    each = sample_gradients(network, {"images": images, "labels": labels}, names)
    rows = torch.cat([each[name] for name in names], 1)
    clipped = rows * (NOISE["bound"] / rows.norm(dim=1, keepdim=True)).clamp(max=1)
    torch.testing.assert_close(found, clipped.mean(0), rtol=1e-9, atol=1e-12)
    assert bool((rows.norm(dim=1) > NOISE["bound"]).any())


@pytest.mark.parametrize("name", MADE)
def test_every_algorithm_is_a_training(name):
    workload = WORKLOADS[0]
    spec = spec_of(workload, MADE[name])
    assert spec.rounds == workload.rounds + 2
    assert spec.local_steps == workload.local_steps


def test_others_are_asked_for_one_client_and_the_loop_for_few_steps():
    workload = WORKLOADS[0]
    asked = {one.name: work_of(one, workload).steps for one in CONTESTANTS}
    assert asked["dp-loop"] == LOOP_STEPS
    assert asked["opacus"] * workload.clients == asked["hyperfl"] == workload.steps
