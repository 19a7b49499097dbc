"""The published loops do what the plug-ins do; every contestant of the benchmark can be made."""

from functools import partial

import pytest
import torch
from defense_speed.parts import made
from torch.nn import functional as F

from leaklab.defenses.base import Alone, ClientContext, Defense
from leaklab.defenses.grad_defense import GradDefense
from leaklab.defenses.soteria import Soteria
from leaklab.models.cnns import DLGLeNet
from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 8, 8), 5


@pytest.fixture
def step():
    model = DLGLeNet(n_conv=3)
    network = model.initialised(SHAPE, CLASSES, 1, torch.float64)
    draws = stream(0, "samples")
    batch = {"images": draws.normal(3, *SHAPE), "labels": draws.integers(0, CLASSES, 3)}
    loss = F.cross_entropy(network(batch["images"]), batch["labels"])
    names = [name for name, _ in network.named_parameters()]
    gradients = dict(zip(names, torch.autograd.grad(loss, list(network.parameters())), strict=True))
    moment = Alone(0, dict(network.state_dict()), batch, partial(model.build, SHAPE, CLASSES))
    return gradients, lambda: ClientContext(1.0, seed=0, client=0).at(moment)


@pytest.mark.parametrize("kind", ["GradDefense", "Soteria"])
def test_a_loop_gives_what_its_plug_in_gives(step, kind):
    from defense_speed import loops

    gradients, context = step
    fast = GradDefense(root_samples=2) if kind == "GradDefense" else Soteria(0.5)
    slow = loops.GradDefenseLoop(root_samples=2) if kind == "GradDefense" else loops.SoteriaLoop(0.5)
    found, expected = fast.gradient(gradients, context()), slow.gradient(gradients, context())
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-12)
    assert any(not torch.equal(found[name], value) for name, value in gradients.items())


def test_every_contestant_is_a_defense():
    from defense_speed.contestants import CONTESTANTS, MADE, SLOW

    assert [one.name for one in CONTESTANTS] == list(MADE)
    assert set(SLOW) < set(MADE)
    assert all(isinstance(make(), Defense) for make in MADE.values())


def test_the_loops_do_few_steps_of_the_same_model():
    from defense_speed.workloads import LOOP_STEPS, WORKLOADS, of_loop

    for workload in WORKLOADS:
        assert of_loop(workload).steps == LOOP_STEPS
        assert of_loop(workload).model == workload.model


def test_other_ways_to_the_samples_gradients_find_the_same():
    ways = [
        part() for name, part in made().items() if name.startswith(("grad-defense: every", "grad-defense: the same by"))
    ]
    ours, *others = ways
    assert len(others) == 2
    for found in others:
        for name, value in ours.items():
            assert torch.allclose(found[name].flatten(1), value, rtol=1e-3, atol=1e-6), name
