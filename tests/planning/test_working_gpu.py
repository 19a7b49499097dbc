"""Where a call runs: on a GPU that works here, on those of its cluster, or on processors, and each in one line."""

import ast
import re
import sys
from pathlib import Path

import pytest

from leaklab.planning import gpus
from leaklab.planning.gpus import (
    Asked,
    Place,
    gpu_problem,
    gpus_of_partitions,
    place_of_call,
    place_of_job,
    refuse_missing_gpu,
)
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
    monkeypatch.setattr(gpus, "PROBE", probe)
    monkeypatch.setattr(gpus, "PROBE_SECONDS", 1 if "sleep" in probe else 60)
    assert gpu_problem() == problem


def test_a_missing_interpreter_is_no_working_gpu(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "/no/such/python" in gpu_problem()


def test_only_who_asks_for_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(gpus, "gpu_problem", lambda: DRIVER)
    refuse_missing_gpu([])
    refuse_missing_gpu([None, "cpu"])
    with pytest.raises(UserError, match=r"^device cuda: no GPU works .*\(Found no NVIDIA driver on your system\): set"):
        refuse_missing_gpu(iter([None, "cpu", "cuda"]))
    monkeypatch.setattr(gpus, "gpu_problem", lambda: "")
    refuse_missing_gpu(["cuda"])


# What `auto` means, on this machine.

SLURM, LOCAL = Asked("slurm"), Asked()


@pytest.fixture
def hardware(monkeypatch, tmp_path):
    """Return a function that says whether a driver is here and what its GPU lacks."""
    monkeypatch.setenv(gpus.DEVICE, "")

    def have(present, problem=""):
        device = tmp_path / "nvidia0"
        device.touch()
        monkeypatch.setattr(gpus, "HARDWARE", (tmp_path / "kfd", *([device] if present else [])))
        monkeypatch.setattr(gpus, "gpu_problem", lambda: problem if present else pytest.fail("torch was asked"))

    return have


def test_a_gpu_that_works_is_taken_and_said(hardware):
    hardware(present=True)
    found = place_of_call("auto", LOCAL)
    assert (found.device, found.line) == ("cuda", "device auto: a GPU works here, trainings and attacks run on it")
    assert found.resources == {"device": "cuda", "gpu": 1}


def test_where_no_driver_is_nothing_is_asked_and_nothing_said(hardware):
    hardware(present=False)
    assert place_of_call("auto", LOCAL) == Place("cpu")
    assert Place("cpu").resources == {"device": "cpu", "gpu": 0}


def test_a_gpu_that_does_not_work_is_not_taken_and_the_line_says_why(hardware, tmp_path):
    hardware(present=True, problem=DRIVER)
    found = place_of_call("auto", LOCAL)
    assert found.device == "cpu"
    assert found.line == (
        f"device auto: {tmp_path}/nvidia0 is here, but no GPU works (Found no NVIDIA driver on your system), so "
        "processors"
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_the_configuration_names_is_neither_sought_nor_explained(hardware, monkeypatch, device):
    hardware(present=False)
    monkeypatch.setattr(gpus, "SINFO", ("/no/such/sinfo",))
    assert place_of_call(device, SLURM) == Place(device) == place_of_job(device)


def test_a_job_runs_where_its_call_has_decided(hardware):
    hardware(present=True)
    place_of_call("auto", LOCAL)
    hardware(present=False)  # the node has none: the job must not turn to a processor in silence
    assert place_of_job("auto").device == "cuda"


# What `auto` means on a cluster.


def asked(monkeypatch, lines, partition=""):
    """Decide for a call on a cluster whose ``sinfo`` answers with these lines."""
    monkeypatch.setattr(gpus, "SINFO", ("printf", "%s", lines))
    return place_of_call("auto", Asked("slurm", partition))


BOTH = "cpu*|(null)|up\nbig|gpu:a100:4(S:0-1),shard:8|up\nold|gpu:k80:1|down\n"


def test_a_partition_with_gpus_is_named_where_the_default_one_has_none(hardware, monkeypatch):
    hardware(present=False)
    found = asked(monkeypatch, BOTH)
    assert found.resources == {"device": "cuda", "gpu": 1, "slurm_partition": "big"}
    assert found.line == (
        "device auto: partitions with GPUs: big (gpu:a100:4); each training and attack asks for one in big"
    )


@pytest.mark.parametrize(
    ("lines", "partition", "said"),
    [
        ("all*|gpu:2|up\n", "", "partition all has GPUs (gpu:2), each training and attack asks for one"),
        (BOTH, "cpu,big", "partition big has GPUs (gpu:a100:4), each training and attack asks for one"),
    ],
)
def test_no_partition_is_named_where_jobs_go_to_one_with_gpus_anyway(hardware, monkeypatch, lines, partition, said):
    hardware(present=False)
    found = asked(monkeypatch, lines, partition)
    assert found.resources == {"device": "cuda", "gpu": 1}
    assert found.line == f"device auto: {said}"


@pytest.mark.parametrize(
    ("lines", "partition", "said"),
    [
        ("all*|(null)|up\n", "", "sinfo knows no GPUs in this cluster, so processors; device: cuda in config/"),
        (BOTH, "cpu", "partition cpu, which the profile names, has no GPUs, so processors"),
        ("", "", "sinfo knows no GPUs in this cluster"),
        ("what is this", "", "sinfo knows no GPUs in this cluster"),
    ],
)
def test_without_gpus_the_line_says_who_has_none(hardware, monkeypatch, lines, partition, said):
    hardware(present=False)
    found = asked(monkeypatch, lines, partition)
    assert found.device == "cpu"
    assert found.line.startswith(f"device auto: {said}")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/no/such/sinfo",), "No such file or directory"),
        (
            ("sh", "-c", "echo slurm_load_partitions: Unable to contact slurm controller >&2; exit 1"),
            "Unable to contact",
        ),
        (("false",), "status 1"),
        (("sleep", "9"), "not within 0.2 s"),
    ],
)
def test_a_cluster_that_does_not_answer_is_one_line_and_processors(hardware, monkeypatch, command, why):
    hardware(present=False)
    monkeypatch.setattr(gpus, "SINFO", command)
    monkeypatch.setattr(gpus, "ANSWER_SECONDS", 0.2 if "sleep" in command else 20)
    found = place_of_call("auto", SLURM)
    assert found.device == "cpu"
    assert found.line.startswith("device auto: sinfo does not answer (")
    assert why in found.line
    assert "\n" not in found.line


def test_several_kinds_of_a_partition_are_named_once(monkeypatch):
    said = "a*|gpu:h100:8(S:0-1,2-3),gpu:mig:2,nvme:1|up\na*|gpu:h100:8(S:0-1)|up\n"
    assert gpus_of_partitions(said) == ({"a": "gpu:h100:8, gpu:mig:2"}, "a")


def test_another_executor_is_not_asked(hardware):
    hardware(present=False)
    found = place_of_call("auto", Asked("kubernetes"))
    assert found.device == "cpu"
    assert "what a cluster of executor kubernetes has is not known here" in found.line


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["--cores", "2", "demo"], Asked()),
        (["--profile", "slurm"], Asked("slurm")),
        (["--profile", "slurm", "-n"], Asked("slurm", dry=True)),
        (["--profile", "slurm", "--default-resources", "slurm_partition=big"], Asked("slurm", "big")),
        (["--no-such-option"], Asked()),
    ],
)
def test_a_call_is_read_as_snakemake_reads_it(argv, found, capsys):
    assert Asked.of(argv) == found


# Rules and steps.

STEPS = Path(__file__).parents[2] / "src/leaklab/steps"
ON_PROCESSORS = {"base", "pieces"}  # what passes the device on


def imported_steps(tree):
    """Return the steps that a step runs in its own process."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    whole = [name.name for node in nodes if node.module == "leaklab.steps" for name in node.names]
    return {*whole, *(node.module.rpartition(".")[2] for node in nodes if node.module.startswith("leaklab.steps."))}


def computes_on_the_device(step):
    tree = ast.parse((STEPS / f"{step}.py").read_text(encoding="utf-8"))
    own = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return "job.device" in own or any(computes_on_the_device(one) for one in imported_steps(tree) - ON_PROCESSORS)


def test_every_rule_whose_step_computes_on_the_device_asks_for_it_and_no_other(rule_texts):
    steps = {name: re.search(r'step\("(\w+)"(.*)\)', text["shell"]) for name, text in rule_texts.items()}
    computing = {name for name, found in steps.items() if found and computes_on_the_device(found[1])}
    assert len(computing) > 8
    assert {name for name, text in rule_texts.items() if "**ON_DEVICE," in text.get("resources", "")} == computing
    assert {name for name, found in steps.items() if found and '"device"' in found[2]} == computing
    assert {
        name for name, text in rule_texts.items() if "device=runs.device_of(" in text.get("params", "")
    } == computing
