import json

import pytest
import torch

from leaklab.records.files import write_json, write_tensors
from leaklab.steps import draw_partition, partition_data
from leaklab.steps.base import main

CARD = {"name": "toy", "num_classes": 5, "shape": [1, 2, 2], "mean": [0.5], "std": [0.5], "substitute": "a toy"}


@pytest.fixture
def dataset(tmp_path):
    labels = torch.arange(5).repeat(40)
    images = torch.zeros(200, 1, 2, 2, dtype=torch.uint8)
    tensors = {"train_images": images, "train_labels": labels, "test_images": images[:5].clone(),
               "test_labels": labels[:5].clone()}  # fmt: skip
    write_tensors(tmp_path / "toy.safetensors", tensors)
    write_json(tmp_path / "toy.json", CARD)
    return tmp_path / "toy.safetensors"


@pytest.fixture
def partition(dataset):
    folder = dataset.parent / "run"
    spec = json.dumps({"dataset": "toy", "partition": {"name": "dirichlet", "clients": 12, "minimum": 2,
                                                       "validation": 0.25}})  # fmt: skip
    outputs = [f"partition={folder / 'partition.json'}", f"run={folder / 'run.json'}"]
    main("partition_data", partition_data.run, ["--spec", spec, "--input", f"dataset={dataset}", "--output", *outputs])
    return folder / "partition.json"


def draw(dataset, partition, folder):
    inputs = [f"dataset={dataset}", f"partition={partition}"]
    outputs = [f"png={folder / 'partition.png'}", f"pdf={folder / 'partition.pdf'}", f"run={folder / 'p.run.json'}"]
    spec = partition.read_text() if partition.exists() else "{}"
    spec = json.dumps(json.loads(spec).get("spec", {}))
    main("draw_partition", draw_partition.run, ["--spec", spec, "--input", *inputs, "--output", *outputs])
    return [(folder / f"partition.{kind}").read_bytes() for kind in ("png", "pdf")]


def test_both_files_are_written_and_always_the_same(dataset, partition, tmp_path):
    png, pdf = draw(dataset, partition, tmp_path / "a")
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    assert draw(dataset, partition, tmp_path / "b") == [png, pdf]
    record = json.loads((tmp_path / "a/p.run.json").read_text())
    assert record["facts"] == {"substitute": "a toy"}
    assert str(partition) in record["inputs"]


def test_a_partition_of_another_dataset_is_one_clear_line(dataset, tmp_path):
    path = tmp_path / "partition.json"
    write_json(path, {"spec": {}, "clients": [[0, 200]], "validation": [[]]})
    with pytest.raises(SystemExit, match=r"leaklab draw_partition: .* does not fit a training part of 200 samples"):
        draw(dataset, path, tmp_path / "a")
    assert not (tmp_path / "a").exists()
