"""Freed memory is kept for the next step."""

import resource
import sys

import pytest
import torch

from leaklab.federated.forms.dense import keep_freed_memory


def new_pages():
    torch.ones(2**22)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**22)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(sys.platform != "linux", reason="a property of glibc")
def test_a_second_large_piece_costs_no_new_pages():
    if not keep_freed_memory():
        pytest.skip("the C library is not glibc")
    pages = 10 * 2**24 // resource.getpagesize()
    # the least of some tries: a system that reclaims pages takes some away meanwhile
    assert min(new_pages() for _ in range(5)) < pages / 10


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
