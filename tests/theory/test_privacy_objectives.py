"""Objectives (7) to (10): with all hidden parts given they succeed like ordinary inversion, and what is lost shows."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.models.hypernetwork import Hypernetwork, generated_names
from leaklab.theory.privacy_objectives import PrivacyObjectives, _Case

SMALL = {"images": 2, "side": 16, "embedding": 8, "hidden": 16, "iterations": 200, "lower_iterations": 300}


@pytest.fixture(scope="module")
def numbers():
    found = PrivacyObjectives(**SMALL).run(0, None, lambda values, total, label: values)
    return {(one.metric, *one.row.values()): one.value for one in found}


def test_the_message_is_autograds_gradient_through_the_generated_weights():
    case = _Case(PrivacyObjectives(**SMALL), 3, 1)
    sent = {name: value.clone().requires_grad_() for name, value in case.sent.tensors().items()}
    made = Hypernetwork(8, 16)(sent, case.embedding)
    assert set(made) == set(generated_names(sent)) == set(case.made)
    logits = functional_call(case.network, {**made, **case.classifier}, (case.image[None],))
    F.cross_entropy(logits, torch.tensor([case.label])).backward()
    for name, value in case.gradient.tensors().items():
        assert_close(sent[name].grad, value, rtol=1e-10, atol=1e-14)


def test_with_the_hidden_parts_given_the_loss_vanishes_at_the_truth_and_the_attack_succeeds(numbers):
    assert abs(numbers["loss_at_truth", "8", "given"]) < 1e-12
    for objective in ("7", "8", "10"):
        assert numbers["psnr", objective, "given"] > numbers["psnr", "unrelated", "none"] + 8


def test_drawn_parts_fail_and_a_fitted_classifier_needs_no_secret(numbers):
    unrelated = numbers["psnr", "unrelated", "none"]
    assert numbers["psnr", "8", "drawn"] < unrelated + 4
    assert numbers["psnr", "10", "drawn"] < unrelated + 4
    assert numbers["psnr", "10", "fitted"] > unrelated + 8
