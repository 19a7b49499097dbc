"""Named random streams: the name alone decides the numbers."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leaklab.records.streams import stream

STEPS = Path(__file__).parents[2] / "src/leaklab/steps"
N = 200_000
NAMES = st.lists(st.one_of(st.integers(0, 99), st.text("abc", min_size=1, max_size=3)), min_size=1, max_size=4)


def draws(source):
    return torch.cat([source.uniform(5), source.normal(5), source.integers(0, 1000, 5), source.permutation(5)])


def test_the_same_name_gives_the_same_numbers():
    assert torch.equal(draws(stream(7, "client", 3, "batches")), draws(stream(7, "client", 3, "batches")))


@pytest.mark.parametrize(
    "name",
    [
        (8, "client", 3, "batches"),
        (7, "client", 4, "batches"),
        (7, "client", 3, "dropout"),
        (7, "client", 3),
        (7, 3, "client", "batches"),
        (7, "client3", "batches"),
        (73, "client", "batches"),
    ],
)
def test_another_name_gives_other_numbers(name):
    assert not torch.equal(stream(*name).uniform(5), stream(7, "client", 3, "batches").uniform(5))


@given(NAMES, NAMES)
def test_parts_of_a_name_do_not_run_together(one, other):
    same = [str(part) for part in one] == [str(part) for part in other]
    assert torch.equal(stream(0, *one).uniform(4), stream(0, *other).uniform(4)) == same


def test_other_streams_and_the_global_generators_change_nothing():
    expected = stream(1, "a").uniform(10)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    source = stream(1, "a")
    first = source.uniform(4)
    draws(stream(1, "b"))
    torch.rand(3)
    assert torch.equal(torch.cat([first, source.uniform(6)]), expected)


def test_the_global_generators_are_not_touched():
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    draws(stream(1, "a"))
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_a_stream_goes_on_and_does_not_start_again():
    source = stream(1, "a")
    assert not torch.equal(source.uniform(5), source.uniform(5))


def test_the_numbers_are_the_same_on_every_machine():
    """Philox and the name's hash are fixed; published results rest on them."""
    expected = [0.4544525266700544, 0.09248458083628686, 0.7884736530669801]
    assert stream(1024, "client", 3, "round", 0, "batches").uniform(3).tolist() == expected


def test_uniform_has_the_moments_of_its_law():
    sample = stream(0, "u").uniform(N)
    assert sample.min() >= 0
    assert sample.max() < 1
    assert sample.mean() == pytest.approx(1 / 2, abs=5 * (1 / 12 / N) ** 0.5)
    assert sample.var() == pytest.approx(1 / 12, rel=1e-2)


def test_normal_has_the_moments_of_its_law():
    sample = stream(0, "n").normal(N)
    assert sample.mean() == pytest.approx(0, abs=5 / N**0.5)
    assert sample.var() == pytest.approx(1, rel=2e-2)
    assert (sample**3).mean() == pytest.approx(0, abs=5 * (15 / N) ** 0.5)
    assert (sample**4).mean() == pytest.approx(3, rel=5e-2)


def test_integers_are_even_over_a_half_open_range():
    counts = stream(0, "i").integers(-2, 3, N).add(2).bincount()
    assert len(counts) == 5
    assert (counts - N / 5).abs().max() < 5 * (N * 0.2 * 0.8) ** 0.5


def test_permutations_are_permutations_and_even():
    source = stream(0, "p")
    sample = torch.stack([source.permutation(3) for _ in range(6000)])
    assert torch.equal(sample.sort(1).values, torch.arange(3).expand(6000, 3))
    counts = (sample * torch.tensor([9, 3, 1])).sum(1).bincount()
    counts = counts[counts > 0]
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 5 * (6000 / 6 * 5 / 6) ** 0.5


def test_streams_of_neighboring_names_are_uncorrelated():
    table = torch.stack([stream(0, "client", k).normal(20_000) for k in range(5)])
    apart = torch.corrcoef(table) - torch.eye(5)
    assert apart.abs().max() < 5 / 20_000**0.5


def test_shapes_and_types():
    source = stream(0, "s")
    assert source.uniform().shape == source.normal().shape == source.integers(0, 2).shape == ()
    assert source.uniform(2, 3).shape == (2, 3)
    assert source.uniform().dtype == source.normal(2).dtype == torch.float64
    assert source.integers(0, 5, 2).dtype == source.permutation(4).dtype == torch.int64
    assert source.permutation(1).tolist() == [0]


ORDER = """
import sys, torch
from leaklab.records.streams import repeat_on_gpu
repeat_on_gpu(sys.argv[1])
print(torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic)
"""


@pytest.mark.parametrize(("device", "fixed"), [("cpu", "False False"), ("cuda", "True True")])
def test_a_gpu_adds_in_one_order_and_a_processor_as_ever(device, fixed):
    done = subprocess.run([sys.executable, "-c", ORDER, device], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fixed


def test_every_step_that_computes_on_a_device_lets_it_add_in_one_order():
    on_device = {}
    for path in STEPS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        run = next((one for one in ast.parse(text).body if getattr(one, "name", "") == "run"), None)
        if run is not None and "job.device" in text:  # pieces of long jobs have the run of the whole step
            on_device[path.stem] = "repeat_on_gpu(job.device)" in map(ast.unparse, run.body)
    assert {"train_federated", "run_attack"} <= on_device.keys()
    assert all(on_device.values()), on_device
