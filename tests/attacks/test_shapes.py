"""A reconstruction of other shapes than the trials have is refused with the plug-in's file."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.run import check_shapes
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError

T, R, B, SHAPE = 3, 2, 4, (1, 5, 6)
KNOWLEDGE = Knowledge("honest-but-curious", {"batch_size": B, "input_shape": list(SHAPE)})
WEIGHTS, UPDATE = {"a": torch.zeros(2)}, {"a": torch.zeros(T, 2)}
OBSERVATION = Observation(WEIGHTS, UPDATE, "gradient", "eval", {"name": "mlp", "settings": {}}, tuple(range(T)))
GOOD = Reconstruction(
    images=torch.zeros(T, B, *SHAPE),
    labels=torch.zeros(T, B, dtype=torch.int64),
    candidates=torch.zeros(T, R, B, *SHAPE),
    candidate_losses=torch.zeros(T, R),
    starts=(),
    scale=torch.ones(T),
)


def test_what_fits_the_trials_passes():
    check_shapes(GOOD, OBSERVATION, KNOWLEDGE, "my-attack")


@pytest.mark.parametrize(
    ("field", "shape", "wanted"),
    [
        ("images", (T, *SHAPE), "[3, 4, 1, 5, 6]"),
        ("images", (B, T, *SHAPE), "[3, 4, 1, 5, 6]"),
        ("labels", (T,), "[3, 4]"),
        ("labels", (T, B, 10), "[3, 4]"),
        ("candidates", (T, R, *SHAPE), "[3, 2, 4, 1, 5, 6]"),
        ("candidate_losses", (T,), "[3, 2]"),
        ("scale", (), "[3]"),
    ],
)
def test_another_shape_is_named(field, shape, wanted):
    with pytest.raises(UserError) as caught:
        check_shapes(replace(GOOD, **{field: torch.zeros(shape)}), OBSERVATION, KNOWLEDGE, "my-attack")
    assert f"attacks/my_attack.py: reconstruct returned {field} of shape {list(shape)}" in str(caught.value)
    assert str(caught.value).endswith(f"make it {wanted}")


def test_something_else_is_named():
    with pytest.raises(UserError, match=r"attacks/my_attack\.py: reconstruct returned Tensor"):
        check_shapes(torch.zeros(3), OBSERVATION, KNOWLEDGE, "my-attack")


def test_an_update_of_several_steps_may_have_a_batch_for_each():
    facts = Knowledge("honest-but-curious", {**KNOWLEDGE.facts, "batch_size": B // 2, "local_steps": 2})
    check_shapes(GOOD, OBSERVATION, facts, "my-attack")
    for batch, steps in ((B // 2, 1), (B - 1, 2), (2 * B, 2)):
        facts = Knowledge("honest-but-curious", {**KNOWLEDGE.facts, "batch_size": batch, "local_steps": steps})
        with pytest.raises(UserError, match=rf"make it \[{T}, {batch}"):
            check_shapes(GOOD, OBSERVATION, facts, "my-attack")
