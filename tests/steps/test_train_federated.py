"""The step from files to files, on made-up images."""

import json
import os
import subprocess
import sys
import time

import pytest
import torch

from leaklab.records.files import read_json, read_table, read_tensors, write_json, write_tensors
from leaklab.records.streams import stream
from leaklab.steps import train_federated
from leaklab.steps.base import main

SPEC = {
    "dataset": "noise",
    "partition": {"name": "two-clients", "seed": 0},
    "model": "logistic-regression",
    "defense": "lrp",
    "rates": [[0.1], [0.1, 0.2]],
    "rounds": 4,
    "local_steps": 3,
    "batch_size": 8,
    "seeds": [1, 2],
    "evaluate_every": 2,
}

KILLED_SPEC = SPEC | {"rounds": 60, "model": "mlp", "optimizer": {"name": "sgd", "momentum": 0.5}, "evaluate_every": 20}
PRIVATE_SPEC = KILLED_SPEC | {
    "partition": {"name": "two-clients", "seed": 0, "tests": 4},
    "algorithm": "local-only",
    "defense": "none",
    "clients_per_round": 1,
    "evaluate": ["own-test"],
}


@pytest.fixture
def arguments(tmp_path):
    torch.set_num_threads(1)
    draws = stream(0, "noise")
    tensors = {}
    for part, count in (("train", 40), ("test", 10)):
        tensors[f"{part}_images"] = draws.integers(0, 256, count, 1, 8, 8).to(torch.uint8)
        tensors[f"{part}_labels"] = draws.integers(0, 3, count)
    write_tensors(tmp_path / "noise.safetensors", tensors)
    card = {"name": "noise", "num_classes": 3, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3], "substitute": None}
    write_json(tmp_path / "noise.json", card)
    write_json(
        tmp_path / "partition.json",
        {
            "clients": [list(range(20)), list(range(20, 40))],
            "num_classes": [3, 3],
            "tests": [[0, 1, 2, 3], [3, 4, 5, 6]],
        },
    )
    files = {"dataset": "noise.safetensors", "card": "noise.json", "partition": "partition.json"}
    made = {"sweep": "sweep.parquet", "weights": "weights.safetensors", "run": "run.json"}
    return [
        *("--spec", json.dumps(SPEC)),
        *("--input", *(f"{name}={tmp_path / file}" for name, file in files.items())),
        *("--output", *(f"{name}={tmp_path / file}" for name, file in made.items())),
    ]


def of_rounds(arguments, folder, spec, *shorter):
    """Return the arguments of a training with its outputs in a folder of its own."""
    folder.mkdir()
    _, _, given, *files = arguments
    at = files.index("--output")
    made = [f"{pair.split('=')[0]}={folder / pair.rpartition('/')[2]}" for pair in files[at + 1 :]]
    more = [f"shorter={before / name}" for before in shorter for name in ("sweep.parquet", "weights.safetensors")]
    more = more or ["shorter="]  # what a rule's command says where there is none
    return ["--spec", json.dumps(spec), given, *files[:at], *more, "--output", *made]


def test_a_training_captured_at_five_rounds_is_one_training(arguments, tmp_path):
    """Each stop goes on from the one before it, and its files have the bytes of a training of its own."""
    whole = SPEC | {"rounds": 9, "model": "mlp"}
    before, steps = [], 0
    for until in (1, 2, 5, 8, 9):
        spec = whole | {"until": until}
        main("train_federated", train_federated.run, of_rounds(arguments, tmp_path / f"own-{until}", spec))
        main("train_federated", train_federated.run, of_rounds(arguments, tmp_path / str(until), spec, *before))
        before = [tmp_path / str(until)]
        for name in ("sweep.parquet", "weights.safetensors"):
            assert (before[0] / name).read_bytes() == (tmp_path / f"own-{until}" / name).read_bytes(), (until, name)
        steps += read_json(before[0] / "run.json")["facts"]["client_steps"]
    assert steps == read_json(tmp_path / "own-9/run.json")["facts"]["client_steps"]


def test_a_state_with_a_flipped_bit_is_one_line(arguments, tmp_path, capsys):
    main("train_federated", train_federated.run, of_rounds(arguments, tmp_path / "shorter", SPEC | {"until": 2}))
    weights = tmp_path / "shorter/weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    with pytest.raises(SystemExit) as caught:
        main(
            "train_federated",
            train_federated.run,
            of_rounds(arguments, tmp_path / "longer", SPEC, tmp_path / "shorter"),
        )
    assert str(caught.value) == (
        f"leaklab train_federated: {weights} is not what its record says: delete {weights.parent} and run snakemake "
        "again"
    )
    assert not list((tmp_path / "longer").glob("*.parquet"))


def test_the_step_writes_its_files_and_facts(arguments, tmp_path):
    main("train_federated", train_federated.run, arguments)
    table = read_table(tmp_path / "sweep.parquet")
    assert table["round"].tolist() == [2] * 4 + [4] * 4
    assert table["rate_0"].tolist() == [0.1] * 8
    assert table["rate_1"].isna().sum() == 4
    weights = read_tensors(tmp_path / "weights.safetensors")
    assert {name: tuple(value.shape) for name, value in weights.items()} == {"fc.weight": (4, 3, 64), "fc.bias": (4, 3)}
    facts = read_json(tmp_path / "run.json")["facts"]
    assert facts["client_steps"] == 4 * 2 * 4 * 3
    assert facts["diverged"] == 0
    assert facts["microseconds_per_client_step"] > 0


def test_what_clients_keep_is_written_under_a_name_of_its_own(arguments, tmp_path):
    arguments[1] = json.dumps(PRIVATE_SPEC | {"rounds": 1, "model": "logistic-regression", "optimizer": "sgd"})
    main("train_federated", train_federated.run, arguments)
    shapes = {name: tuple(value.shape) for name, value in read_tensors(tmp_path / "weights.safetensors").items()}
    assert shapes == {"clients/fc.weight": (4, 2, 3, 64), "clients/fc.bias": (4, 2, 3)}
    table = read_table(tmp_path / "sweep.parquet")
    assert table["own_after_accuracy"].between(0, 100).all()
    assert "test_accuracy" not in table


def test_what_clients_set_aside_is_tested_where_it_is_asked_for(arguments, tmp_path):
    deal = read_json(tmp_path / "partition.json")
    aside = {"clients": [list(range(16)), list(range(20, 36))], "validation": [list(range(16, 20)), [36, 37, 38, 39]]}
    write_json(tmp_path / "partition.json", deal | aside)
    partition = SPEC["partition"] | {"validation": 0.2}
    arguments[1] = json.dumps(SPEC | {"partition": partition, "evaluate": ["validation"]})
    main("train_federated", train_federated.run, arguments)
    table = read_table(tmp_path / "sweep.parquet")
    # eight images: accuracies are eighths
    assert set(table["validation_accuracy"] % 12.5) == {0.0}
    assert "test_accuracy" not in table


def test_no_checkpoint_is_left(arguments, tmp_path):
    (tmp_path / "checkpoint.safetensors").write_bytes(b"left by a run that was killed while its disk was full")
    main("train_federated", train_federated.run, arguments)
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_the_same_spec_gives_the_same_bytes(arguments, tmp_path):
    main("train_federated", train_federated.run, arguments)
    first = (tmp_path / "weights.safetensors").read_bytes()
    main("train_federated", train_federated.run, arguments)
    assert (tmp_path / "weights.safetensors").read_bytes() == first


# continuous integration kills a few times, whoever wants to be sure more often
KILLS = int(os.environ.get("LEAKLAB_KILLS", "4"))
SLOWLY = """
import os, sys, time, torch
from leaklab.steps import base, train_federated
torch.set_num_threads(1)
plain, seconds = base.Job.track, float(os.environ["SECONDS_OF_A_ROUND"])
base.Job.track = lambda *arguments: (time.sleep(seconds) or index for index in plain(*arguments))
base.main("train_federated", train_federated.run, sys.argv[1:])
"""


def files_of(folder):
    return {name: (folder / name).read_bytes() for name in ("sweep.parquet", "weights.safetensors")}


def kill_at_work(process, checkpoint, seconds, changed_at):
    """Kill with SIGKILL some time after the process saved its first own checkpoint; say whether it still ran."""
    before = changed_at(checkpoint)
    while process.poll() is None and changed_at(checkpoint) in (before, 0):
        time.sleep(0.005)
    time.sleep(seconds)
    process.kill()
    return process.wait() != 0


@pytest.mark.parametrize("spec", [KILLED_SPEC, PRIVATE_SPEC], ids=["fedavg", "private-state"])
def test_a_job_killed_at_random_moments_ends_with_the_bytes_of_an_undisturbed_one(
    arguments, tmp_path, spec, changed_at
):
    """SIGKILL, as a scheduler sends it: in a step, while a checkpoint or a result is written, or in between."""
    arguments[1] = json.dumps(spec)
    main("train_federated", train_federated.run, arguments)
    undisturbed = files_of(tmp_path)
    for name in (*undisturbed, "run.json"):
        (tmp_path / name).unlink()
    command, environment = [sys.executable, "-c", SLOWLY, *arguments], os.environ | {"LEAKLAB_CHECKPOINT_SECONDS": "0"}
    # so slow that kills fall into the training, also where this process has to wait for a processor
    slowly, moments = environment | {"SECONDS_OF_A_ROUND": "0.25"}, stream(0, "kills")
    with (tmp_path / "log").open("w") as log:
        for _ in range(KILLS):
            process = subprocess.Popen(command, env=slowly, stderr=log)
            assert kill_at_work(process, tmp_path / "checkpoint.safetensors", 0.6 * moments.number(), changed_at)
        subprocess.run(command, env=environment | {"SECONDS_OF_A_ROUND": "0"}, stderr=log, check=True)
    assert (tmp_path / "log").read_text(encoding="utf-8").count("going on from round") == KILLS
    assert files_of(tmp_path) == undisturbed
    assert not [path for path in tmp_path.iterdir() if "checkpoint" in path.name]
