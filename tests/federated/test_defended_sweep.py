"""Sweeps under the defenses of the OUTPOST paper: how many models train together changes nothing."""

import pytest
import torch

from leaklab.federated.engine import train
from leaklab.records.record import Component

DEFENSES = {"outpost": {}, "laplace-noise": {}, "soteria-probes": {}, "grad-defense": {"root_samples": 2}, "none": {}}


def weights(spec, dataset, clients, name, chunk):
    changed = {
        "defense": Component(name=name, settings=DEFENSES[name]),
        "model": Component(name="dlg-lenet", settings={"n_conv": 3}),
        "dtype": "float64",
    }
    return train(spec.model_copy(update=changed), dataset, clients, chunk=chunk).weights


@pytest.mark.parametrize("name", sorted(set(DEFENSES) - {"none"}))
def test_any_chunk_gives_the_same_weights_and_the_defense_changes_them(spec, dataset, clients, name):
    one, seven, plain = (weights(spec, dataset, clients, *of) for of in ((name, 1), (name, 7), ("none", 7)))
    for key, value in one.items():
        torch.testing.assert_close(seven[key], value, rtol=1e-10, atol=1e-12)
    assert any(not torch.allclose(plain[key], value, rtol=1e-3) for key, value in one.items())
