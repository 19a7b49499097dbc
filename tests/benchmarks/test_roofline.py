"""What the roofline counts is what a step computes, and its page says what its rows say."""

from dataclasses import replace

import pytest
import torch
from roofline.layers import CASES, Part, material, parts_of, sizes, taps
from roofline.page import page, roof_of
from torch.utils.flop_counter import FlopCounterMode

from leaklab.models.lanes.library import library
from leaklab.records import plugins

RATES = {"sgemm": 100.0, "copy": 10.0, "copied": 2.0}
needs_compiler = pytest.mark.skipif(library() is None, reason="no compiled steps on this machine")


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model + str(len(case.settings)))
def test_operations_are_those_that_torch_counts(case):
    small = replace(case, batch=2)
    network = plugins.load("models", case.model, dict(case.settings)).build(case.shape, 10)
    with FlopCounterMode(display=False) as counter:
        network(torch.ones(2, *case.shape)).sum().backward()
    assert sum(part.flop for part in parts_of(small)) == counter.get_total_flops()


@needs_compiler
def test_every_layer_is_timed_in_both_directions():
    parts = parts_of(CASES[0])
    network, _, batch = material(CASES[0])
    assert len(parts) == 2 * len(network.layers(bool(batch.masks)))
    assert all(part.seconds > 0 for part in parts)
    assert {part.product is None for part in parts if "pooling" in part.layer} == {True}


@needs_compiler
def test_sizes_are_those_of_the_layers():
    network, _, _ = material(CASES[0])
    first = network.layers(False)[0]
    assert (sizes(first), taps(first)) == ((784, 10, 24 * 24), 25)


def test_the_roof_is_the_lower_rate():
    part = Part("a, b", "convolution 1", "forward", 1000, 500, 1.0, 0.5)
    assert roof_of(part, RATES) == 20.0
    assert roof_of(replace(part, bytes=10), RATES) == 100.0


def test_a_page_says_what_its_rows_say():
    parts = [
        Part("net, b", "convolution 1", "forward", 8_000_000, 400_000, 2e-4, 1e-4),
        Part("net, b", "pooling 2", "forward", 0, 4, 1e-4, None),
    ]
    text = page(parts, {"net, b": (4e-4, 1e-3)}, RATES, "a machine")
    assert "| net, b | 400 | 20 | 25% | 2.50 |" in text
    assert "| net | convolution 1 | forward | 8.0 | 20 | 200 | 40 | 40% | 50% |" in text
    assert "| net | pooling 2 | forward | - | - | 100 | - | - | - |" in text
