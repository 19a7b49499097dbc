"""A failure that every try meets is not tried again; one that another machine or moment may not meet is."""

import inspect
import os
import time
from types import SimpleNamespace

import pytest
from snakemake.jobs import Job
from snakemake.scheduling.job_scheduler import JobScheduler

from leaklab.planning.reasons import cannot_pass
from leaklab.planning.snakemake_patches import give_up_what_cannot_pass

TRACE = "12:00:01 begins\nTraceback (most recent call last):\n  File ...\n"


@pytest.fixture
def log(tmp_path):
    def write(text):
        path = tmp_path / "job.log"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        f"{TRACE}NameError: name 'gradeint' is not defined\n",
        f"{TRACE}SyntaxError: invalid syntax\n",
        f"{TRACE}KeyError: 'labels'\n\n",
        "leaklab run_attack: attack 'ig' needs 'labels', which is withheld\n",
        f"{TRACE}leaklab run_attack: mine/defenses/a.py, line 3: TypeError: no: correct the plug-in or its settings\n",
    ],
)
def test_a_mistake_in_the_code_or_what_is_asked_cannot_pass(log, text):
    assert cannot_pass("run_attack", [log(text)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12:00:01 update: 3 of 10, 5 s\n",
        f"{TRACE}MemoryError\n",
        f"{TRACE}torch.OutOfMemoryError: CUDA out of memory.\n",
        f"{TRACE}RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
        f"{TRACE}OSError: [Errno 5] Input/output error\n",
        f"{TRACE}ValueError: no\nslurmstepd: error: *** STEP 1.0 CANCELLED DUE TO TIME LIMIT ***\n",
        "leaklab run_attack: device cuda: no GPU works on this machine (no driver)\n",
        "leaklab run_attack: the disk is full: free some space\n",
        "leaklab train_federated: weights of resnet-18 cannot be had: set LEAKLAB_MIRROR\n",
    ],
)
def test_what_another_machine_or_moment_may_not_meet_may_pass(log, text):
    assert not cannot_pass("run_attack", [log(text)])


def test_data_may_be_had_a_moment_later_and_a_job_without_a_log_may_do_better(log, tmp_path):
    assert not cannot_pass("fetch_dataset", [log("leaklab fetch_dataset: mnist cannot be had\n")])
    assert not cannot_pass("run_attack", [])
    assert not cannot_pass("run_attack", [tmp_path / "gone.log"])


def job_of(kind, log):
    job = object.__new__(kind)
    job._log, job.rule = [log], SimpleNamespace(name="run_attack", restart_times=2)
    return job


def test_snakemake_asks_how_often_a_job_may_be_tried_when_it_has_failed(log):
    """If one of these fails, the mend takes hold of nothing."""
    assert "job.restart_times > job.attempt - 1" in inspect.getsource(JobScheduler._handle_error)
    said = log(f"{TRACE}NameError: name 'a' is not defined\n")
    plain = type("Plain", (Job,), {"log": property(lambda self: self._log)})
    assert job_of(plain, said).restart_times == 2  # snakemake has mended itself if this is 0


def test_a_job_that_would_fail_again_is_not_tried_again(log):
    mended = type("Mended", (Job,), {"log": property(lambda self: self._log)})
    give_up_what_cannot_pass(mended, time.time())
    said = log(f"{TRACE}NameError: name 'a' is not defined\n")
    assert job_of(mended, said).restart_times == 0
    assert job_of(mended, log("12:00:01 update: 3 of 10\n")).restart_times == 2
    said = log(f"{TRACE}NameError: name 'a' is not defined\n")
    os.utime(said, (time.time() - 100, time.time() - 100))  # of an earlier call: this try never began
    assert job_of(mended, said).restart_times == 2
