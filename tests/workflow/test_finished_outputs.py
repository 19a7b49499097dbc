"""A job that fails, in any way and at any moment, leaves what it and others had finished, and says nothing untrue."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.workflow
ROOT = Path(__file__).parents[2]
SNAKEFILE = """
from snakemake.exceptions import WorkflowError
from snakemake.jobs import Job
from snakemake.persistence.file import FilePersistence
from leaklab.planning.snakemake_patches import ask_for_the_gpu_first, keep_finished_outputs

if not config.get("plain"):
    keep_finished_outputs(Job, FilePersistence)
if config.get("gpu"):
    ask_for_the_gpu_first(Job, WorkflowError)

localrules: all, table, other

rule all:
    input: expand("{way}/table", way=config["ways"].split(",")), "other"

rule attack:
    output: one="{way}/one", two="{way}/two"
    params: device=config["device"]
    resources: device=config["device"]
    log: "{way}/log"
    shell: "{wildcards.way}/step {params.device} {output}"

rule table:
    input: "{way}/one", "{way}/two"
    output: "{way}/table"
    shell: "cat {input} > {output}"

rule other:
    output: "other"
    params: asked=config["device"]
    shell: "echo {params.asked} > {output}"
"""
PROFILE = "show-failed-logs: true\nrerun-incomplete: true\nkeep-going: true\nrerun-triggers: [mtime, params, input]\n"
SHELL, PYTHON = "#!/bin/sh\n", f"#!{sys.executable}\n"
MADE = 'echo "$1" > {0}.part && mv {0}.part {0}\n'
HALF = SHELL + MADE.format('"$2"')
GOOD = HALF + MADE.format('"$3"')
WAYS = {
    "no-driver": f"{PYTHON}raise RuntimeError('Found no NVIDIA driver on your system.')",
    "import-error": f"{PYTHON}import no_such_module_anywhere",
    "missing-interpreter": "#!/no/such/python\n",
    "disk-full": f"{PYTHON}open('/dev/full', 'w', buffering=1).write('results\\n')",
    "killed": f"{SHELL}kill -9 $$",
    "half-of-it-made": f"{HALF}exit 1",
    "all-made-then-an-error": f"{GOOD}exit 1",
    "an-output-forgotten": HALF,
}
"""How a job may fail -> the program that is its step."""
# jobs run as on a cluster: each in a process of its own, of which the call knows only how it ended
ELSEWHERE = """
import os
import subprocess
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    job_deploy_sources=False, non_local_exec=True, implies_no_shared_fs=False, init_seconds_before_status_checks=0,
    pass_envvar_declarations_to_cmd=True, auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    def run_job(self, job):
        self.write_jobscript(job, self.get_jobscript(job))
        command = os.environ.get(f"INSTEAD_OF_{job.wildcards.get('way', '')}") or f"sh {self.get_jobscript(job)}"
        code = subprocess.run(command, shell=True, check=False, start_new_session=True).returncode
        self.report_job_submission(SubmittedJobInfo(job, external_jobid="1", aux={"code": code}))

    async def check_active_jobs(self, active_jobs):
        for info in active_jobs:
            (self.report_job_error if info.aux["code"] else self.report_job_success)(info)
        if False:
            yield

    def cancel_jobs(self, active_jobs):
        pass
"""


class Small:
    """A workflow of some attacks, all of whose outputs were made for the device ``cpu``."""

    def __init__(self, folder, ways):
        self.folder, self.ways = folder, list(ways)
        self.write("Snakefile", SNAKEFILE)
        self.write("profiles/default/profile.yaml", PROFILE)
        self.write("plugins/snakemake_executor_plugin_elsewhere/__init__.py", ELSEWHERE)
        for way in ways:
            self.write(f"{way}/step", GOOD)
        done = self.call("cpu")
        assert done.returncode == 0, done.stdout

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def call(self, device, *words, settings=(), **more):
        path = os.pathsep.join([str(ROOT / "src"), str(self.folder / "plugins")])
        command = [sys.executable, "-m", "snakemake", "--cores", "1", *words]
        config = [f"device={device}", f"ways={','.join(self.ways)}", *settings]
        return subprocess.run(
            [*command, "--config", *config], cwd=self.folder, env={**os.environ, "PYTHONPATH": path, **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=240,
        )  # fmt: skip

    def files(self, way):
        """Name -> its content and time, of what a way's attack and table have made."""
        paths = [path for name in ("one", "two", "table") if (path := self.folder / way / name).exists()]
        return {path.name: (path.read_text(), path.stat().st_mtime_ns) for path in paths}

    def asked_again(self, device):
        """The ways whose attack a call for the device would run."""
        said = self.call(device, "--dry-run", "--quiet", "progress").stdout
        return {way for way in self.ways if f"output: {way}/one" in said}


def test_a_failed_job_leaves_what_was_finished(tmp_path):
    torn = Small(tmp_path, WAYS)
    before = {way: torn.files(way) for way in WAYS}
    for way, step in WAYS.items():
        torn.write(f"{way}/step", step)
    done = torn.call("cuda")
    assert done.returncode != 0
    assert {way: torn.files(way) for way in WAYS} == before, done.stdout
    assert (torn.folder / "other").read_text() == "cuda\n"  # what else was asked for is made
    assert list((torn.folder / ".snakemake/aside").iterdir()) == []
    assert torn.asked_again("cuda") == set(WAYS)
    assert torn.asked_again("cpu") == set()


CLUSTER = ("--executor", "elsewhere", "--jobs", "1")
ON_A_CLUSTER = {
    "import-error": WAYS["import-error"],
    "node-killed": f"{HALF}kill -9 0",
    "never-started": GOOD,
    "works": GOOD,
}


def test_a_failed_job_of_a_cluster_leaves_what_was_finished(tmp_path):
    torn = Small(tmp_path, ON_A_CLUSTER)
    before = {way: torn.files(way) for way in ON_A_CLUSTER}
    for way, step in ON_A_CLUSTER.items():
        torn.write(f"{way}/step", step)
    done = torn.call("cuda", *CLUSTER, **{"INSTEAD_OF_never-started": "exit 1"})
    assert done.returncode != 0
    assert before.pop("works") != torn.files("works")
    assert {way: torn.files(way) for way in before} == before, done.stdout
    assert list((torn.folder / ".snakemake/aside").iterdir()) == []
    assert torn.asked_again("cuda") == set(before)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU works here")
def test_a_job_on_a_node_without_a_gpu_says_so_and_touches_nothing(tmp_path):
    torn = Small(tmp_path, ["works"])
    before = torn.files("works")
    done = torn.call("cuda", *CLUSTER, settings=["gpu=1"])
    assert done.returncode != 0
    assert torn.files("works") == before
    (line,) = (tmp_path / "works/log").read_text().splitlines()
    assert line.startswith("leaklab attack: device cuda: no GPU works on this machine (")
    assert line in done.stdout
    assert "Traceback (most recent call last)" not in done.stdout


def test_snakemake_itself_loses_what_was_finished(tmp_path):
    """If this fails, Snakemake has mended it: delete ``keep_finished_outputs``."""
    torn = Small(tmp_path, ["killed"])
    torn.write("killed/step", WAYS["killed"])
    torn.call("cuda", settings=["plain=1"])
    assert set(torn.files("killed")) == {"table"}
    assert torn.asked_again("cuda") == set()
