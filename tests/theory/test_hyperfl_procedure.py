"""The check of HyperFL's procedure holds, and notices what it is there for."""

from dataclasses import replace

import pytest
import torch

from leaklab.federated.algorithms import hyperfl
from leaklab.federated.algorithms.hyperfl import HyperFL
from leaklab.records.streams import stream
from leaklab.theory import hyperfl_procedure
from leaklab.theory.hyperfl_procedure import HyperFLProcedure, explicit_gradients

SMALL = {"side": 16, "embedding": 5, "hidden": 6, "classifier_steps": 2, "local_steps": 2}


def numbers(**settings):
    check = HyperFLProcedure(**{**SMALL, **settings})
    return {one.metric: one.value for one in check.run(0, None, lambda rows, total, label: rows)}


def test_the_procedure_is_as_the_paper_says():
    found = numbers()
    moves = {("classifier", "classifier"), ("generator", "hypernetwork"), ("generator", "embedding")}
    for phase in ("classifier", "generator"):
        for part in hyperfl_procedure.PARTS:
            change = found[f"{phase}_phase_changes_{part}"]
            assert (change > 1e-6) if (phase, part) in moves else change == 0
    for error in ("mean_error", "generated_gradient_error", "low_rank_error"):
        assert found[error] < 1e-10
    assert found["sat_out_change"] == 0
    assert found["head_attack_gradient_error"] < 1e-8
    assert found["head_attack_weights_error"] < 1e-8
    assert found["embedding_error"] < 1e-12
    assert 1e-9 < found["embedding_error_of_steps"] < 1
    assert found["uploaded_others"] == 0
    assert found["uploaded_tensors"] == 2 + 2 * 6
    generated = 16 * 26 + 32 * (16 * 25 + 1) + 128 * (32 * 4 + 1)
    assert found["uploaded_megabytes"] == pytest.approx(4e-6 * (7 * generated + 6 * 6))
    assert found["network_megabytes"] == pytest.approx(4e-6 * (generated + 10 * 129))


def test_explicit_products_are_those_of_autograd_through_modules():
    draws = stream(0, "case")
    hidden, head = torch.nn.Linear(3, 4).double(), torch.nn.Linear(4, 6).double()
    v = draws.normal(3).requires_grad_()
    g = draws.normal(2, 3)
    ((head(torch.relu(hidden(v))).view(2, 3)) * g).sum().backward()
    values = {
        "hypernetwork.hidden.weight": hidden.weight.detach(), "hypernetwork.hidden.bias": hidden.bias.detach(),
        "hypernetwork.heads.fc.weight.weight": head.weight.detach().view(2, 3, 4),
        "hypernetwork.heads.fc.weight.bias": head.bias.detach().view(2, 3), "v": v.detach(),
    }  # fmt: skip
    found = explicit_gradients(values, "v", {"fc.weight": g})
    wanted = [head.weight.grad.view(2, 3, 4), head.bias.grad.view(2, 3), hidden.weight.grad, hidden.bias.grad, v.grad]
    for value, expected in zip(found.values(), wanted, strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)


class Leaking(HyperFL):
    def upload(self, before, after):
        return {**super().upload(before, after), "embedding": after["embedding"]}

    def phases(self, local_steps):
        first, second = super().phases(local_steps)
        return replace(first, moves=lambda name: first.moves(name) or name == "embedding"), second

    def shares(self, sizes):
        return [1 / len(sizes)] * len(sizes)


def test_an_algorithm_that_leaks_moves_too_much_or_weighs_alike_is_noticed(monkeypatch):
    monkeypatch.setattr(hyperfl_procedure, "HyperFL", Leaking)
    monkeypatch.setitem(hyperfl.PLUGINS, "hyperfl", Leaking)
    found = numbers()
    assert found["uploaded_others"] == 1
    assert found["classifier_phase_changes_embedding"] > 0
    assert found["mean_error"] > 1e-6
