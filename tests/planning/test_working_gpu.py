"""A GPU that is asked for and does not work is one line, before a file is touched."""

import sys

import pytest

from leaklab.planning import devices
from leaklab.planning.devices import gpu_problem, refuse_missing_gpu
from leaklab.records.errors import UserError

DRIVER = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU."


@pytest.fixture(autouse=True)
def asked_anew():
    gpu_problem.cache_clear()
    yield
    gpu_problem.cache_clear()


@pytest.mark.parametrize(
    ("probe", "problem"),
    [
        ("pass", ""),
        (f"raise RuntimeError({DRIVER!r})", DRIVER),
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("raise AssertionError('Torch not compiled with CUDA enabled')", "Torch not compiled with CUDA enabled"),
        ("raise RuntimeError('CUDA error: invalid\\nCUDA kernel errors might be late')", "CUDA error: invalid"),
        ("import os; os._exit(7)", "status 7"),
        ("import time; time.sleep(60)", "it has not answered for 1 s"),
    ],
)
def test_what_a_gpu_lacks_is_said_as_torch_says_it(monkeypatch, probe, problem):
    monkeypatch.setattr(devices, "PROBE", probe)
    monkeypatch.setattr(devices, "SECONDS", 1 if "sleep" in probe else 60)
    assert gpu_problem() == problem


def test_a_missing_interpreter_is_no_working_gpu(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "/no/such/python" in gpu_problem()


def test_only_who_asks_for_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(devices, "gpu_problem", lambda: DRIVER)
    refuse_missing_gpu([])
    refuse_missing_gpu([None, "cpu"])
    with pytest.raises(UserError, match=r"^device cuda: no GPU works .*\(Found no NVIDIA driver on your system\): set"):
        refuse_missing_gpu(iter([None, "cpu", "cuda"]))
    monkeypatch.setattr(devices, "gpu_problem", lambda: "")
    refuse_missing_gpu(["cuda"])
