"""F3: the head's gradient gives the label of one sample away, whatever the factor."""

import pytest
import torch

from leaklab.attacks.labels import bias_rule, head, row_sum_rule
from leaklab.records.errors import UserError


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rule", [bias_rule, row_sum_rule])
def test_f3_the_rule_finds_every_label(digits, observe, rule, factor):
    images, labels = digits[0][:30, None], digits[1][:30, None]
    assert torch.equal(rule(observe(images, labels, [factor] * 30)), labels)


def test_a_delta_is_read_with_its_sign_turned(digits, observe):
    images, labels = digits[0][:5, None], digits[1][:5, None]
    assert torch.equal(bias_rule(observe(images, labels, [-0.01] * 5, kind="delta")), labels)


def test_the_head_is_the_last_layer(digits, observe):
    observation = observe(digits[0][:2, None], digits[1][:2, None])
    assert torch.equal(head(observation).bias, observation.weights["fc.bias"])


def test_a_model_without_affine_head_is_refused(digits, observe):
    observation = observe(digits[0][:1, None], digits[1][:1, None])
    weights = {name: value for name, value in observation.weights.items() if not name.startswith("fc")}
    update = {name: observation.update[name] for name in weights}
    broken = type(observation)(weights, update, "gradient", "eval", {}, (0,))
    with pytest.raises(UserError, match="affine layer"):
        head(broken)
