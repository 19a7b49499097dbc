"""Freed memory is kept for the next step."""

import subprocess
import sys

import pytest

from leaklab.federated.forms.dense import keep_freed_memory

# Pieces of 64 MiB, as glibc keeps those below 32 MiB by itself once one was freed. The first few lie at new places
# (up to eight were seen) with the setting too.
STEPS = """
import resource, sys, torch
from leaklab.federated.forms.dense import keep_freed_memory
kept = sys.argv[1] == "kept" and keep_freed_memory()
def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(16):
    torch.ones(2**24)
before = pages()
for _ in range(10):
    torch.ones(2**24)
print(kept, (pages() - before) * resource.getpagesize() / (10 * 2**26))
"""


def new_share(told):
    """Return whether a fresh process keeps freed memory, and the share of its later pieces that lies on new pages."""
    done = subprocess.run([sys.executable, "-c", STEPS, told], capture_output=True, text=True, check=True)
    kept, share = done.stdout.split()
    return kept == "True", float(share)


@pytest.mark.skipif(sys.platform != "linux", reason="a property of glibc")
def test_later_large_pieces_cost_no_new_pages_and_would_without_the_setting():
    kept, share = new_share("kept")
    if not kept:
        pytest.skip("the C library is not glibc")
    assert share < 0.1
    assert new_share("plain")[1] > 0.9


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
