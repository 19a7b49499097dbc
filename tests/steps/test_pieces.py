"""Jobs in pieces leave the bytes of whole jobs, also where a piece is killed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leaklab.attacks import reconstructions
from leaklab.attacks.search import signed_adam
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.generators.base import save_generator
from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.observations.files import save_observation
from leaklab.records import plugins
from leaklab.records.files import read_json, write_json, write_tensors
from leaklab.records.recorder import Recorder
from leaklab.records.streams import stream
from leaklab.records.traits import attack_traits
from leaklab.specs.capture import CaptureSpec
from leaklab.steps import attack_piece, join_pieces, run_attack, train_federated, train_piece
from leaklab.steps.base import Job, main

TRAIN = {
    "dataset": "noise",
    "partition": {"name": "two-clients", "seed": 0},
    "model": "mlp",
    "defense": "lrp",
    "optimizer": {"name": "sgd", "momentum": 0.5},
    "rates": [[0.1], [0.1, 0.2]],
    "rounds": 9,
    "local_steps": 3,
    "batch_size": 8,
    "seeds": [1, 2],
    "evaluate_every": 2,
}
ATTACK = {"attack": "idlg", "transform": "closed-form-scale", "iterations": 2, "restarts": 2}
CAPTURE = {"dataset": "noise", "images": {"count": 7, "seed": 2}, "model": "dlg-lenet", "defense": "lrp"}


GENERATOR = {"latent_size": 5, "width": 2}


class Killed(BaseException):
    """Stands for a signal."""


@pytest.fixture
def material(tmp_path, monkeypatch):
    """Inputs of a training and of an attack on seven trials in chunks of two."""
    monkeypatch.setattr(reconstructions, "TRIALS_TOGETHER", 2)
    monkeypatch.setenv("LEAKLAB_CHECKPOINT_SECONDS", "0")
    torch.set_num_threads(1)
    draws = stream(0, "noise")
    tensors = {}
    for part, count in (("train", 40), ("test", 10)):
        tensors[f"{part}_images"] = draws.integers(0, 256, count, 1, 8, 8).to(torch.uint8)
        tensors[f"{part}_labels"] = draws.integers(0, 3, count)
    card = {"name": "noise", "num_classes": 3, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3], "substitute": None}
    write_tensors(tmp_path / "noise.safetensors", tensors)
    write_json(tmp_path / "noise.json", card)
    write_json(tmp_path / "partition.json", {"clients": [list(range(20)), list(range(20, 40))], "num_classes": [3, 3]})
    dataset = Dataset("noise", 3, **tensors, mean=torch.tensor([0.5]), std=torch.tensor([0.3]))
    observation, knowledge, _ = capture(CaptureSpec.model_validate(CAPTURE), dataset)
    save_observation(tmp_path / "observation.safetensors", tmp_path / "facts.json", observation, knowledge)
    known = CAPTURE | {"defense": "none", "local_steps": 2, "threat_model": "honest-but-curious-with-labels"}
    for kind, changes in {"gradient": {"local_steps": 1}, "delta": {"kind": "delta"}}.items():
        observation, knowledge, _ = capture(CaptureSpec.model_validate(known | changes), dataset)
        save_observation(tmp_path / f"{kind}.safetensors", tmp_path / f"{kind}.json", observation, knowledge)
    generator = ConditionalGan(**GENERATOR).generator((1, 8, 8), 3, stream(0, "g")).frozen()
    save_generator(tmp_path / "generator.safetensors", generator, "conditional-gan", GENERATOR)
    return tmp_path


def job(material, spec, names, folder, outputs):
    inputs = {name: [material / file] for name, file in names.items()}
    written = {name: material / folder / file for name, file in outputs.items()}
    return Job(spec, inputs, written, "cpu", Recorder(rule="test", code="c0de", device="cpu"))


def training(material, folder, spec=TRAIN, **outputs):
    names = {"dataset": "noise.safetensors", "card": "noise.json", "partition": "partition.json"}
    return job(material, spec, names, folder, outputs or {"sweep": "sweep.parquet", "weights": "weights.safetensors"})


def attack(material, folder, spec=ATTACK, kind="observation", **outputs):
    names = {"observation": f"{kind}.safetensors", "facts": "facts.json" if kind == "observation" else f"{kind}.json"}
    if "generator" in str(spec):
        names |= {"generator": "generator.safetensors", "description": "generator.json"}
    return job(material, spec, names, folder, outputs or {"reconstruction": "r.safetensors", "trials": "trials.csv"})


def piece_of(make, material, folder, number, pieces, spec, **outputs):
    return make(material, folder, {"piece": number, "pieces": pieces, "spec": spec}, **outputs)


def same_files(one, other):
    names = [path.name for path in one.iterdir() if path.suffix in (".safetensors", ".csv", ".parquet")]
    assert names
    assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_training_in_pieces_ends_with_the_same_bytes(material, caplog, count):
    train_federated.run(training(material, "whole"))
    for left in range(count - 1, 0, -1):
        marker = f"left-{left}.json"
        train_piece.run(piece_of(training, material, "cut", count - left - 1, count, TRAIN, marker=marker))
        assert (material / "cut" / marker).is_file()
        assert not (material / "cut/weights.safetensors").exists()
    assert read_json(material / "cut/pieces.json") == {"pieces": count}
    rest = training(material, "cut")
    with caplog.at_level("INFO"):
        train_federated.run(rest)
    first = -(-9 * (count - 1) // count)
    assert f"going on from round {first} " in caplog.text
    assert rest.recorder.facts["client_steps"] == 2 * 2 * 2 * 3 * (9 - first)
    same_files(material / "whole", material / "cut")


@pytest.mark.parametrize("count", [3, 9])
def test_a_training_that_reaches_its_goal_in_a_piece_is_ended_by_the_job(material, count):
    spec = TRAIN | {"goal": {"metric": "test_accuracy", "value": 30}, "evaluate_every": 1}
    whole = training(material, "whole", spec)
    train_federated.run(whole)
    assert 0 < whole.recorder.facts["client_steps"] < 9 * 2 * 2 * 2 * 3, "the goal is reached at once, or never"
    for left in range(count - 1, 0, -1):
        marker = f"left-{left}.json"
        train_piece.run(piece_of(training, material, "cut", count - left - 1, count, spec, marker=marker))
        assert not (material / "cut/weights.safetensors").exists()
    train_federated.run(training(material, "cut", spec))
    same_files(material / "whole", material / "cut")


def test_a_piece_that_finds_its_rounds_done_leaves_them(material):
    first = piece_of(training, material, "cut", 0, 3, TRAIN, marker="left-2.json")
    train_piece.run(first)
    kept = (material / "cut/checkpoint.safetensors").stat().st_mtime_ns
    train_piece.run(replace(first))
    assert (material / "cut/checkpoint.safetensors").stat().st_mtime_ns == kept


def test_without_a_checkpoint_in_time_a_piece_trains_on_and_never_writes_results(material, monkeypatch):
    monkeypatch.setenv("LEAKLAB_CHECKPOINT_SECONDS", "3600")
    train_piece.run(piece_of(training, material, "cut", 0, 3, TRAIN, marker="left-2.json"))
    assert not (material / "cut/weights.safetensors").exists()
    train_federated.run(training(material, "whole"))
    train_federated.run(training(material, "cut"))
    same_files(material / "whole", material / "cut")


def test_an_attack_in_pieces_ends_with_the_same_bytes(material):
    """Of four chunks: two pieces of two, three of which one has two, and four of one."""
    run_attack.run(attack(material, "whole"))
    for count in (2, 3, 4):
        made = []
        for number in reversed(range(count)):
            part = f"piece-{number}.safetensors"
            attack_piece.run(piece_of(attack, material, "cut", number, count, ATTACK, part=part))
            made.append(material / "cut" / part)
        joined(material, made)
        rest = attack(material, "cut")
        run_attack.run(rest)
        assert rest.recorder.facts["chunks_resumed"] == 4
        for path in made:
            path.unlink()
        same_files(material / "whole", material / "cut")
        assert not (material / "cut/checkpoint.safetensors").exists()
        shutil.rmtree(material / "cut")


def test_a_killed_piece_goes_on_with_what_it_had(material, monkeypatch):
    work, done = run_attack.attacked, []

    def until_killed(*arguments):
        if len(done) == 1:
            raise Killed
        done.append(1)
        return work(*arguments)

    piece = piece_of(attack, material, "cut", 0, 2, ATTACK, part="piece-0.safetensors")
    monkeypatch.setattr(run_attack, "attacked", until_killed)
    with pytest.raises(Killed):
        attack_piece.run(piece)
    assert not (material / "cut/piece-0.safetensors").exists()
    counted = []
    monkeypatch.setattr(run_attack, "attacked", lambda *given: counted.append(1) or work(*given))
    attack_piece.run(piece)
    assert len(counted) == 1
    assert (material / "cut/piece-0.safetensors").is_file()


def test_more_pieces_than_chunks_do_no_harm(material):
    run_attack.run(attack(material, "whole"))
    made = []
    for number in range(6):
        attack_piece.run(piece_of(attack, material, "cut", number, 6, ATTACK, part=f"piece-{number}.safetensors"))
        made.append(material / "cut" / f"piece-{number}.safetensors")
    joined(material, made)
    run_attack.run(attack(material, "cut"))
    for path in made:
        path.unlink()
    same_files(material / "whole", material / "cut")


PRIOR = {"generator": {"dataset": "noise", "model": {"name": "conditional-gan", **GENERATOR}, "steps": 3}}
RESUMED_BY = {
    "csdlg": ("delta", {"attack": {"name": "csdlg", "optimizer": "signed-adam", "total_variation": 0.1}}),
    "csdlg-lbfgs": ("delta", {"attack": "csdlg"}),
    "delta-dlg": ("delta", {"attack": "delta-dlg"}),
    "delta-ig": ("delta", {"attack": {"name": "delta-ig", "label_rule": "known"}}),
    "dlg": ("gradient", {"attack": "dlg"}),
    "ggl": ("gradient", {"attack": {"name": "ggl", "population": 4}, **PRIOR}),
    "ggl-adam": ("gradient", {"attack": {"name": "ggl", "optimizer": "adam"}, **PRIOR}),
    "idlg": ("gradient", {"attack": "idlg"}),
    "ig": ("gradient", {"attack": "ig"}),
}


def test_each_attack_that_the_plan_chains_is_tried_here():
    kept = {name for name in plugins.available("attacks") if attack_traits(name).keeps_state}
    assert {spec["attack"] if isinstance(spec["attack"], str) else spec["attack"]["name"]
            for _, spec in RESUMED_BY.values()} == kept  # fmt: skip


@pytest.mark.parametrize("name", RESUMED_BY)
def test_a_chain_of_pieces_that_each_do_one_step_ends_with_the_same_bytes(material, name):
    kind, changes = RESUMED_BY[name]
    spec = {"transform": "none", "iterations": 2, "restarts": 2, **changes}
    run_attack.run(attack(material, "whole", spec, kind))
    chain, made = 5, []
    for number in range(4 * chain):
        told = {"piece": number, "pieces": 4 * chain, "chain": chain, "seconds": 0, "spec": spec}
        part, folder = f"piece-{number}.safetensors", material / "cut" / f"chain-{number // chain}"
        attack_piece.run(attack(material, "cut", told, kind, part=part))
        if number % chain == 0:
            assert (folder / "search.safetensors").exists()
        if number % chain == chain - 1:
            assert not folder.exists()
            made.append(material / "cut" / part)
    assert read_json(material / "cut/pieces.json") == {"pieces": 4 * chain, "chain": chain, "seconds": 0}
    joined(material, made)
    rest = attack(material, "cut", spec, kind)
    run_attack.run(rest)
    assert rest.recorder.facts["chunks_resumed"] == 4
    for path in (material / "cut").glob("piece-*.safetensors"):
        path.unlink()
    same_files(material / "whole", material / "cut")


def test_a_killed_attack_goes_on_within_its_chunk(material, monkeypatch):
    spec = {"attack": "ig", "transform": "none", "iterations": 6}
    run_attack.run(attack(material, "whole", spec, "gradient"))
    advance, steps = signed_adam._Running.advance, []

    def until_killed(*given):
        steps.append(given[2])
        if len(steps) == 4:
            raise Killed
        return advance(*given)

    monkeypatch.setattr(signed_adam._Running, "advance", until_killed)
    with pytest.raises(Killed):
        run_attack.run(attack(material, "cut", spec, "gradient"))
    run_attack.run(attack(material, "cut", spec, "gradient"))
    assert steps[:8] == [0, 1, 2, 3, 3, 4, 5, 0]
    same_files(material / "whole", material / "cut")


def test_pieces_of_other_code_are_not_joined(material, capsys):
    made = []
    for number, code in enumerate(("c0de", "other")):
        piece = piece_of(attack, material, "cut", number, 2, ATTACK, part=f"piece-{number}.safetensors")
        attack_piece.run(replace(piece, recorder=Recorder(rule="test", code=code, device="cpu")))
        made.append(material / "cut" / f"piece-{number}.safetensors")
    with pytest.raises(SystemExit) as stopped:
        joined(material, made)
    assert "made by different code or from different files: delete them" in str(stopped.value)


def joined(material: Path, made):
    checkpoint, record = material / "cut/checkpoint.safetensors", material / "joined.json"
    inputs = [f"part={path}" for path in made]
    main("join_pieces", join_pieces.run, ["--input", *inputs, "--output", f"checkpoint={checkpoint}", f"run={record}"])
    (material / "cut/pieces.json").unlink()
    assert json.loads(record.read_text())["rule"] == "join_pieces"
