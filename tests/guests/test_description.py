"""Facts about defenses of which the truth is known, those of the house, unnamed, and invented ones: none is wrong."""

import pytest
from own_defenses.sources import SOURCES

from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.laboratory import Laboratory


@pytest.mark.parametrize("network", ["mlp", "lenet"])
@pytest.mark.parametrize("name", SOURCES)
def test_no_fact_is_wrong_and_none_is_missed(name, network, tmp_path):
    source, truth = SOURCES[name]
    file = tmp_path / "unnamed.py"
    file.write_text(source)
    found = {fact.name: fact.value for fact in describe(Laboratory(Subject.load(file), network))}
    assert found.keys() == truth.keys()
    for fact, value in truth.items():
        if isinstance(value, dict):
            assert {key: found[fact][key] for key in value} == pytest.approx(value)
        elif value is not ...:
            assert found[fact] == value


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("(value * 100).round() / 100", "loses what is small"),
        ("torch.where(value.abs() > 50, value, 0 * value)", "loses what is small"),
        ("torch.where(value.abs() < 1e-9, value, 0 * value)", "loses what is large"),
        ("0 * value", "ignores the gradient"),
    ],
)
def test_what_loses_gradients_of_one_size_is_not_said_to_ignore_any(body, said, tmp_path):
    """Dense noise has no entries as large as a gradient has, so what loses the former may send the latter."""
    file = tmp_path / "unnamed.py"
    file.write_text(f"import torch\n\ndef defend(gradients):\n    return {{name: {body} for name, value in "
                    "gradients.items()}\n")  # fmt: skip
    assert [fact.name for fact in describe(Laboratory(Subject.load(file), "lenet"))] == [said]
