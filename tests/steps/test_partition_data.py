import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leaklab.data.deal import read_clients
from leaklab.data.labels import Labels
from leaklab.steps import fetch_dataset, partition_data
from leaklab.steps.base import main


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    outputs = ["data=digits.safetensors", "card=digits.json", "run=run.json"]
    catalog = Path(__file__).parents[2] / "config/datasets.yaml"
    files = ["--output", *(pair.replace("=", f"={folder}/") for pair in outputs), "--input", f"catalog={catalog}"]
    main("fetch_dataset", fetch_dataset.run, ["--spec", '{"dataset": "digits"}', *files])
    return folder / "digits.safetensors"


def arguments(digits, folder, **choice):
    spec = json.dumps({"dataset": "digits", "partition": choice})
    outputs = [f"partition={folder / 'partition.json'}", f"run={folder / 'run.json'}"]
    return ["--spec", spec, "--input", f"dataset={digits}", "--output", *outputs]


def partition(digits, folder, **choice):
    main("partition_data", partition_data.run, arguments(digits, folder, **choice))
    return folder / "partition.json"


def test_two_clients_on_digits(digits, tmp_path):
    path = partition(digits, tmp_path, name="two-clients", shard_size=20)
    labels = Labels.load(digits).train_labels
    few, many = read_clients(path, len(labels))
    assert np.bincount(labels[few]).tolist() == [80, 80]
    assert np.bincount(labels[many]).tolist() == [0, 0] + [20] * 8
    assert json.loads(path.read_text())["num_classes"] == [2, 8]
    facts = json.loads((tmp_path / "run.json").read_text())["facts"]
    assert facts == {
        "clients": 2, "samples": 320, "smallest": 160, "largest": 160, "validation": 0, "substitute": None,
    }  # fmt: skip


def test_a_fifth_is_set_aside_and_noted(digits, tmp_path):
    content = json.loads(partition(digits, tmp_path, name="iid", clients=10, validation=0.2).read_text())
    assert [len(part) for part in content["clients"]] == [114] * 10
    assert [len(part) for part in content["validation"]] == [29] * 10
    facts = json.loads((tmp_path / "run.json").read_text())["facts"]
    assert (facts["samples"], facts["validation"]) == (1140, 290)


def test_the_same_bytes_every_time(digits, tmp_path):
    choice = {"name": "label-shards", "clients": 10, "shard_size": 50, "largest": 5}
    first, second = (partition(digits, tmp_path / name, **choice).read_bytes() for name in ("a", "b"))
    assert first == second


@pytest.mark.parametrize("choice", [{"name": "iid"}, {"name": "dirichlet", "minimum": 1, "tests": 9}])
def test_the_step_runs_without_torch(digits, tmp_path, choice):
    """A job that reads labels and writes indices is over before torch would have been imported."""
    step = (
        "import sys; from leaklab.steps.base import main; from leaklab.steps.partition_data import run; "
        "main('partition_data', run, sys.argv[1:]); sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", step, *arguments(digits, tmp_path, clients=10, **choice)]
    subprocess.run(command, check=True)
    assert len(json.loads((tmp_path / "partition.json").read_text())["clients"]) == 10


def test_a_shard_size_that_does_not_fit_is_one_clear_line(digits, tmp_path):
    with pytest.raises(SystemExit, match="leaklab partition_data: partition two-clients: label 0 has 1 whole shards"):
        partition(digits, tmp_path, name="two-clients")
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_setting_is_one_clear_line(digits, tmp_path):
    with pytest.raises(SystemExit, match="has no setting 'shards': it accepts shard_size"):
        partition(digits, tmp_path, name="two-clients", shards=3)
