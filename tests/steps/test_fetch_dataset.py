import json
from pathlib import Path

import pytest

from leaklab.data.dataset import Dataset
from leaklab.steps.base import main
from leaklab.steps.fetch_dataset import run

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_the_root_without_mirror(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)


def fetch(folder, name):
    outputs = {"data": f"{name}.safetensors", "card": f"{name}.json", "run": f"{name}.run.json"}
    arguments = [f"{key}={folder / file}" for key, file in outputs.items()]
    main("fetch_dataset", run, ["--spec", json.dumps({"dataset": name}), "--output", *arguments])


def test_digits_end_to_end(tmp_path):
    fetch(tmp_path, "digits")
    dataset = Dataset.load(tmp_path / "digits.safetensors")
    assert (dataset.name, dataset.num_classes, dataset.shape) == ("digits", 10, (1, 28, 28))
    normal = dataset.normalised(dataset.train_images)
    assert abs(float(normal.mean())) < 1e-4
    assert abs(float(normal.std()) - 1) < 1e-4
    facts = json.loads((tmp_path / "digits.run.json").read_text())["facts"]
    assert facts["substitute"] is None
    assert facts["sources"] == json.loads((tmp_path / "digits.json").read_text())["files"]
    assert facts["sources"][0]["path"] == "datasets/data/digits.csv.gz"


def test_the_same_bytes_every_time(tmp_path):
    for folder in ("a", "b"):
        fetch(tmp_path / folder, "faces")
    for name in ("faces.safetensors", "faces.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_unknown_dataset_is_one_clear_line(tmp_path):
    with pytest.raises(SystemExit) as caught:
        fetch(tmp_path, "digitz")
    assert str(caught.value).startswith("leaklab fetch_dataset: unknown dataset 'digitz': choose from digits, faces")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_mirror_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path / "gone"))
    with pytest.raises(SystemExit, match="is not a folder: correct it or unset it"):
        fetch(tmp_path, "mnist")
