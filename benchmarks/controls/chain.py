"""The chain of an item in one process: every planned job by the step of its rule, as the workflow calls it."""

import importlib
from collections.abc import Iterable
from pathlib import Path

from leaklab.planning.plan import PREPARED, Job
from leaklab.specs.base import Spec, run_folder
from leaklab.specs.stages import OBSERVED, observation_folder
from leaklab.specs.text import TEXT_FOLDER
from leaklab.steps.base import main

READ = {
    "partition": ("partition.json",),
    "train": ("weights.safetensors",),
    "generator": ("generator.safetensors", "generator.json"),
    "capture": ("truth.safetensors", "truth_facts.json"),
    "law": ("law.safetensors", "law.json"),
    "attack": ("reconstruction.safetensors", "trials.csv"),
    "capture-text": ("truth.json",),
    "attack-text": ("reconstruction.json", "trials.csv"),
}
"""Stage -> files that later steps read of it; of captures the private ones, which only scores are given."""
MADE = {**READ, "train": ("sweep.parquet", "weights.safetensors"), "score": ("scores.csv", "cards.json"),
        "generator": ("generator.safetensors", "generator.json", "card.json"),
        "score-text": ("scores.csv", "texts.json", "cards.json")}  # fmt: skip
SEEN = ("observation.safetensors", "facts.json")
NAMES = {"weights.safetensors": "weights", "generator.json": "description", "truth_facts.json": "truth_facts",
         "law.json": "laws"}  # fmt: skip


def run_jobs(jobs: Iterable[Job]) -> int:
    """Run the jobs whose record is not there yet, in the order of the road; return how many."""
    done = 0
    for job in jobs:
        if job.dataset:
            _fetch(job.dataset)
        if not (job.folder / "run.json").is_file():
            _run(job.spec.rule, job.told, inputs_of(job), outputs_of(job.spec))
            done += 1
    return done


def inputs_of(job: Job) -> list[str]:
    """Return the inputs of a job as its rule names them, ``name=path``."""
    stage = job.spec.stage
    found = _dataset(job.dataset, stage) if job.dataset else []
    for spec in job.needs:
        of, folder = spec.stage, run_folder(spec)
        if of not in OBSERVED or stage.startswith("score"):
            found += [f"{_input_name(stage, of, name)}={folder / name}" for name in READ[of]]
        if of in OBSERVED:
            found += [f"{_name(name)}={observation_folder(spec) / name}" for name in SEEN]
    return found


def outputs_of(spec: Spec) -> list[str]:
    """Return the outputs of a job as its rule names them, ``name=path``."""
    stage, folder = spec.stage, run_folder(spec)
    found = [f"{_name(name)}={folder / name}" for name in (*MADE[stage], "run.json")]
    if stage in OBSERVED:
        found += [f"{_name(name)}={observation_folder(spec) / name}" for name in SEEN]
    return found


def _fetch(dataset: str) -> None:
    text = dataset.startswith(TEXT_FOLDER)
    record = PREPARED / f"{dataset}.run.json"
    if not record.is_file():
        files = [f"corpus={PREPARED / dataset}.json"] if text else [f"data={PREPARED / dataset}.safetensors",
                                                                    f"card={PREPARED / dataset}.json"]  # fmt: skip
        spec = f'{{"dataset": "{dataset.removeprefix(TEXT_FOLDER)}"}}'
        _run("fetch_text" if text else "fetch_dataset", spec, [], [*files, f"run={record}"])


def _run(step: str, spec: str, inputs: list[str], outputs: list[str]) -> None:
    for path in outputs:
        Path(path.partition("=")[2]).parent.mkdir(parents=True, exist_ok=True)
    module = importlib.import_module(f"leaklab.steps.{step}")
    main(step, module.run, ["--spec", spec, "--input", *inputs, "--output", *outputs])


def _dataset(dataset: str, stage: str) -> list[str]:
    path = PREPARED / dataset
    if dataset.startswith(TEXT_FOLDER):
        return [f"corpus={path}.json"]
    card = "dataset_card" if stage == "generator" else "card"
    return [f"dataset={path}.safetensors", *([f"{card}={path}.json"] if stage != "partition" else [])]


def _input_name(stage: str, of: str, name: str) -> str:
    return "backbone" if (stage, of) == ("train", "train") else _name(name)


def _name(file: str) -> str:
    return NAMES.get(file, file.partition(".")[0])
