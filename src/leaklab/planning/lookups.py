"""What the rules of runs look up in the plan: functions of wildcards, made cheap to ask.

Snakemake asks those of scale ``paper`` some hundred thousand times. Before each call of such a function, and in
between, it looks at what arguments the function takes. To find that out takes longer than most of the functions take
themselves, unless the function says it (``__signature__``).
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, TypeVar

from snakemake.exceptions import WorkflowError

from leaklab.planning.code import code_of
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import Ranks, configured_device, runs_there
from leaklab.planning.memory import memory_mb
from leaklab.planning.pieces import Cut
from leaklab.planning.plan import PREPARED, Job, Plan
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.specs.base import RUNS
from leaklab.specs.stages import OBSERVED, observation_folder

Function = TypeVar("Function", bound=Callable[..., Any])
Lookup = Callable[..., Any]
"""A function of wildcards, and of what else Snakemake gives by name: attempt, input, output."""
CUDA_MB = 3000
"""What a process that computes on a GPU maps of the machine's own memory besides, for the libraries of CUDA."""


def signed(function: Function) -> Function:
    """Let a function say what arguments it takes."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function


def of_run(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of wildcards that looks up each run once: all pieces of a run read and are told the same."""
    found: dict[str, Any] = {}

    def known(wildcards: Any) -> Any:
        run = wildcards.run
        if run not in found:
            found[run] = function(wildcards)
        return found[run]

    return signed(known)


class Runs:
    """The runs of a plan, by stage and wildcards; each method named ``..._of`` returns such a function.

    A function raises ``WorkflowError``, in one line, for a run that no item asks for.
    """

    def __init__(self, plan: Callable[[], Plan], device: str, lock: CodeLock, wanted: str = "") -> None:
        """Look up runs.

        Args:
            plan: returns the plan; not to be called before all rules are read.
            device: ``cpu`` or ``cuda``, where trainings and attacks run.
            lock: of the code.
            wanted: what the configuration says of the device; empty for the same.
        """
        self.plan, self.lock, self._kind = plan, lock, device
        self._chosen = wanted == "auto"
        self.cut = cache(self._cut)

    def job(self, stage: str, wildcards: Any) -> Job:
        """Return the planned job of a stage.

        Raises:
            WorkflowError: no item asks for the run.
        """
        if wildcards.run not in self.plan().jobs.get(stage, {}):
            raise WorkflowError(f"leaklab: no item asks for {stage} run {wildcards.run}")
        return self.plan().job(stage, wildcards.run)

    def spec_of(self, stage: str) -> Lookup:
        """Look up what a run is told."""
        return of_run(lambda wildcards: self.job(stage, wildcards).told)

    def generation_of(self, stage: str) -> Lookup:
        """Look up the code that Snakemake compares with that of the last run."""
        return of_run(lambda wildcards: self.lock.generation_of(code_of(self.job(stage, wildcards).spec)))

    def code_of(self, stage: str) -> Lookup:
        """Look up the digest that the step records; as it asks for outputs, Snakemake does not compare it."""
        return signed(lambda wildcards, output: self.job(stage, wildcards).code)

    def dataset_of(self, stage: str, suffix: str) -> Lookup:
        """Look up a prepared file of the data set that a run reads."""
        return of_run(lambda wildcards: str(PREPARED / f"{self.job(stage, wildcards).dataset}{suffix}"))

    def if_needed(self, stage: str, of_stage: str, name: str) -> Lookup:
        """Look up file ``name`` of each run of ``of_stage`` that a run of ``stage`` reads, if any."""

        def paths(wildcards: Any) -> list[str]:
            read = self.job(stage, wildcards).read_runs
            return [str(RUNS / of / run / name) for of, run in read if of == of_stage]

        return of_run(paths)

    def needed(self, stage: str, of_stage: str, name: str) -> Lookup:
        """Look up file ``name`` of the one run of ``of_stage`` that a run of ``stage`` reads."""
        every = self.if_needed(stage, of_stage, name)

        def path(wildcards: Any) -> str:
            (file,) = every(wildcards)
            return str(file)

        return of_run(path)

    def observed(self, stage: str, name: str) -> Lookup:
        """Look up file ``name`` of the observation that a run of ``stage`` reads."""

        def path(wildcards: Any) -> str:
            read = self.job(stage, wildcards).read_runs
            ((folder, run),) = [(OBSERVED[of], run) for of, run in read if of in OBSERVED]
            return str(RUNS / folder / run / name)

        return of_run(path)

    def of_read_update(self, name: str) -> Lookup:
        """Look up file ``name`` of the observation behind a score, if one of its metrics reads it."""

        def paths(wildcards: Any) -> list[str]:
            spec: Any = self.job("score", wildcards).spec
            read = [spec.attack.capture] if spec.reads_the_update else []
            return [str(observation_folder(capture) / name) for capture in read]

        return of_run(paths)

    def memory_of(self, stage: str) -> Lookup:
        """Look up the MB of a job; they grow with its attempts."""

        def memory(wildcards: Any, attempt: int) -> int:
            spec = self.job(stage, wildcards).spec
            there = self._kind == "cuda" and runs_there(spec)
            return attempt * (memory_mb(spec) + (CUDA_MB if there else 0))

        return signed(memory)

    def device_of(self, stage: str) -> Lookup:
        """Look up the device that Snakemake compares with that of the last run.

        What ``device: auto`` found is no reason to run again what was finished on another device: then it is that of
        the run's record. A device that the configuration names is one.
        """

        def device(wildcards: Any) -> str:
            record = RUNS / stage / wildcards.run / "run.json"
            if self._chosen and record.is_file():
                with suppress(UserError):  # the audit speaks of a damaged record
                    return str(read_json(record).get("device", self._kind))
            return self._kind

        return of_run(device)

    def runtime_of(self, stage: str) -> Lookup:
        """Look up the minutes of a job, after its pieces if it is cut; they grow with its attempts."""
        return signed(lambda wildcards, attempt: attempt * self.cut(stage, wildcards.run).minutes_of_rest)

    def rank_of(self, stage: str) -> Lookup:
        """Look up the priority of a run."""

        def rank(wildcards: Any) -> int:
            self.job(stage, wildcards)
            return self._ranks.of(stage, wildcards.run)

        return signed(rank)

    def rank_of_dataset(self, folder: str) -> Lookup:
        """Look up the priority of a data set below a folder of the prepared ones."""
        return signed(lambda wildcards: self._ranks.of_dataset(f"{folder}{wildcards.dataset}"))

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks(self.plan(), configured_device(self._kind))

    def _cut(self, stage: str, run: str) -> Cut:
        """Return into how many pieces a run is cut, and the minutes that each and what is left after them ask for."""
        return Cut.of(self.plan().job(stage, run), configured_device(self._kind))


# The command of a rule's step: it passes on what the rule declares, by the names that the rule declares it under.

AHEAD = ("before", "checkpoint")
"""Inputs that only have to be there first: a checkpoint is found beside the outputs."""
BESIDE = ("pages",)
"""Outputs that are built into the folder of another one."""
FILES = "{params.files} 2> {log}"
START = "exec python -IS src/leaklab/fork_server.py leaklab.steps."
"""A step as a fork of the call's server, or as ``python -m`` starts it, in the place of the shell: a shell that waits
for a process that is killed says so with the whole command."""
OPTIONS = {"device": "--device {resources.device}", "threads": "--threads {threads}"}


def step(name: str, *options: str) -> str:
    """Return the ``shell`` of a rule whose parameters are ``spec``, ``code`` and ``files``.

    Args:
        name: of the step.
        options: what else it is told: ``device`` (a resource of the rule), ``threads``.
    """
    command = f"{START}{name} --spec {{params.spec:q}} --code {{params.code}}"
    return " ".join([command, *(OPTIONS[option] for option in options), FILES])


@signed
def files(wildcards: Any, input: Any, output: Any) -> str:
    """Return how the step is told its files; as it asks for them, Snakemake does not compare it.

    A name of several files, or none, is written as what the shell makes one word for each of.
    """
    read, written = _named(input, AHEAD), _named(output, BESIDE)
    return " ".join([*(["--input", *read] if read else []), "--output", *written])


def _named(paths: Any, left_out: tuple[str, ...]) -> list[str]:
    return [_words(name, value) for name, value in paths.items() if name not in left_out]


def _words(name: str, value: Any) -> str:
    return f"{name}={value}" if isinstance(value, str) else f"$(printf ' {name}=%s' {' '.join(value)})"
